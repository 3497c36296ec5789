import tempfile

import torch
import torch.distributed as dist

import torch_npu  # noqa: F401
from torch_npu.testing.common_distributed import with_comms
from torch_npu.testing.testcase import TestCase, run_tests


class TestOneRank(TestCase):
    world_size, rank = 1, 0

    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory()
        self.file_name = f"{self.folder.name}/store"

    def tearDown(self):
        self.folder.cleanup()

    def destroy_pg(self):
        dist.barrier()
        dist.destroy_process_group()

    @with_comms
    def test_gather_and_broadcast(self):
        self.assertEqual(dist.get_backend(), "hccl")
        x = torch.arange(3.0).npu()
        parts = [torch.zeros(3).npu()]
        dist.all_gather(parts, x)
        self.assertEqual(parts[0].cpu(), x.cpu())
        dist.broadcast(x, 0)
        self.assertEqual(x.cpu(), torch.arange(3.0))


if __name__ == "__main__":
    run_tests()
