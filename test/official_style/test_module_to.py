import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestModule(TestCase):
    def test_npu_and_back(self):
        module = torch.nn.Linear(3, 2)
        expected = module.weight.detach().clone()
        self.assertTrue(module.npu().weight.is_npu)
        self.assertEqual(module.cpu().weight.detach(), expected)

    def test_half(self):
        self.assertEqual(torch.nn.Linear(2, 2).npu().half().bias.dtype, torch.float16)


if __name__ == "__main__":
    run_tests()
