import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestDevice(TestCase):
    def test_set_and_current(self):
        for index in range(torch.npu.device_count()):
            torch.npu.set_device(index)
            self.assertEqual(torch.npu.current_device(), index)
        torch.npu.set_device(self.npu_device)

    def test_context_returns(self):
        before = torch.npu.current_device()
        with torch.npu.device(torch.npu.device_count() - 1):
            self.assertEqual(torch.ones(1, device="npu").device.index, torch.npu.device_count() - 1)
        self.assertEqual(torch.npu.current_device(), before)

    def test_wrong_device(self):
        with self.assertRaises(RuntimeError):
            torch.ones(1, device="npu:99")


if __name__ == "__main__":
    run_tests()
