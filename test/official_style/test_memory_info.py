import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestMemoryInfo(TestCase):
    def test_mem_get_info(self):
        free, total = torch.npu.mem_get_info()
        self.assertTrue(0 < free <= total)

    def test_snapshot(self):
        x = torch.ones(10, device="npu")
        self.assertTrue(any(segment["device"] == x.device.index for segment in torch.npu.memory_snapshot()))


if __name__ == "__main__":
    run_tests()
