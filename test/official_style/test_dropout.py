import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestDropout(TestCase):
    def test_share_and_scale(self):
        x = torch.ones(4000).npu()
        y = torch.nn.functional.dropout(x, 0.25)
        self.assertAlmostEqual((y == 0).float().mean().item(), 0.25, delta=0.05)
        self.assertEqual(y.max().item(), 1 / 0.75, 1.e-5)

    def test_eval_changes_nothing(self):
        x = torch.randn(5).npu()
        self.assertEqual(torch.nn.Dropout(0.5).eval()(x).cpu(), x.cpu())


if __name__ == "__main__":
    run_tests()
