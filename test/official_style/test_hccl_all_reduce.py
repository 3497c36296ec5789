import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import torch_npu  # noqa: F401
from torch_npu.testing.common_distributed import init_pg, skipIfUnsupportMultiNPU
from torch_npu.testing.testcase import TestCase, run_tests


def worker(rank, world_size, file_name, results):
    init_pg("hccl", world_size, rank, file_name)
    x = torch.full((4,), float(rank + 1)).npu()
    dist.all_reduce(x)
    results.put((rank, x.cpu().tolist()))
    dist.barrier()
    dist.destroy_process_group()


class TestAllReduce(TestCase):
    @skipIfUnsupportMultiNPU(2)
    def test_sum_over_two_ranks(self):
        results = mp.get_context("spawn").SimpleQueue()
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(worker, args=(2, f"{folder}/store", results), nprocs=2)
        self.assertEqual(sorted(results.get() for _ in range(2)), [(0, [3.0] * 4), (1, [3.0] * 4)])

    @skipIfUnsupportMultiNPU(64)
    def test_more_cards_than_there_are(self):
        self.fail("skipped before")


if __name__ == "__main__":
    run_tests()
