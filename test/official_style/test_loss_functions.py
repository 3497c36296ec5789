import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestLosses(TestCase):
    def test_cross_entropy(self):
        logits, target = torch.randn(6, 5), torch.tensor([0, 4, 1, 1, 2, 3])
        for reduction in ("mean", "sum", "none"):
            expected = torch.nn.functional.cross_entropy(logits, target, reduction=reduction)
            result = torch.nn.functional.cross_entropy(logits.npu(), target.npu(), reduction=reduction)
            self.assertRtolEqual(expected.numpy(), result.cpu().numpy())

    def test_mse_and_l1(self):
        x, y = torch.randn(3, 4), torch.randn(3, 4)
        for function in (torch.nn.functional.mse_loss, torch.nn.functional.l1_loss):
            self.assertRtolEqual(function(x, y).numpy(), function(x.npu(), y.npu()).cpu().numpy())


if __name__ == "__main__":
    run_tests()
