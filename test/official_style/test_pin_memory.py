import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestPinMemory(TestCase):
    def test_non_blocking_copy(self):
        host = torch.randn(100).pin_memory()
        self.assertTrue(host.is_pinned())
        device = host.to("npu", non_blocking=True)
        torch.npu.synchronize()
        self.assertEqual(device.cpu(), host)


if __name__ == "__main__":
    run_tests()
