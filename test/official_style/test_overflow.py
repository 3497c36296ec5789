import torch

import torch_npu
from torch_npu.testing.testcase import TestCase, run_tests


class TestOverflow(TestCase):
    def test_inf_and_nan_are_seen(self):
        self.assertTrue(torch_npu.npu.utils.npu_check_overflow(torch.tensor([1.0, float("inf")]).npu()))
        self.assertFalse(torch_npu.npu.utils.npu_check_overflow(torch.ones(2).npu()))


if __name__ == "__main__":
    run_tests()
