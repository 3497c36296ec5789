import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestProperties(TestCase):
    def test_properties(self):
        properties = torch.npu.get_device_properties(0)
        self.assertEqual(properties.name, torch.npu.get_device_name(0))
        self.assertGreater(properties.total_memory, 0)

    def test_npu_is_the_accelerator(self):
        self.assertTrue(torch.npu.is_available())
        self.assertEqual(torch.accelerator.current_accelerator().type, "npu")


if __name__ == "__main__":
    run_tests()
