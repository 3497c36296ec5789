import torch

import torch_npu
from torch_npu.testing.testcase import TestCase, run_tests


class TestRotaryMul(TestCase):
    def test_half_mode(self):
        x, cos, sin = torch.randn(2, 3, 4, 16), torch.randn(1, 3, 1, 16), torch.randn(1, 3, 1, 16)
        left, right = x.chunk(2, -1)
        expected = x * cos + torch.cat((-right, left), -1) * sin
        self.assertRtolEqual(expected.numpy(), torch_npu.npu_rotary_mul(x.npu(), cos.npu(), sin.npu()).cpu().numpy())


if __name__ == "__main__":
    run_tests()
