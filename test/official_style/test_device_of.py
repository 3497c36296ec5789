import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestDeviceOf(TestCase):
    def test_device_of_a_tensor(self):
        x = torch.ones(1, device=f"npu:{torch.npu.device_count() - 1}")
        with torch.npu.device_of(x):
            self.assertEqual(torch.npu.current_device(), x.device.index)

    def test_device_of_a_cpu_tensor_changes_nothing(self):
        before = torch.npu.current_device()
        with torch.npu.device_of(torch.ones(1)):
            self.assertEqual(torch.npu.current_device(), before)


if __name__ == "__main__":
    run_tests()
