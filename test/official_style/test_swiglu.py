import torch

import torch_npu
from torch_npu.testing.testcase import TestCase, run_tests


class TestSwiglu(TestCase):
    def test_swiglu(self):
        x = torch.randn(4, 6, 8)
        first, second = x.chunk(2, -1)
        expected = torch.nn.functional.silu(first) * second
        self.assertRtolEqual(expected.numpy(), torch_npu.npu_swiglu(x.npu(), dim=-1).cpu().numpy())


if __name__ == "__main__":
    run_tests()
