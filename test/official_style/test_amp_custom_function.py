import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class Double(torch.autograd.Function):
    @staticmethod
    @torch.npu.amp.custom_fwd
    def forward(ctx, x):
        return x * 2

    @staticmethod
    @torch.npu.amp.custom_bwd
    def backward(ctx, grad):
        return grad * 2


class TestCustomFunction(TestCase):
    def test_under_autocast(self):
        x = torch.ones(3, device="npu", requires_grad=True)
        with torch.npu.amp.autocast():
            Double.apply(x).sum().backward()
        self.assertEqual(x.grad.cpu(), torch.full((3,), 2.0))


if __name__ == "__main__":
    run_tests()
