import torch
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestCheckpoint(TestCase):
    def test_recompute_has_the_same_dropout(self):
        x = torch.randn(50, device="npu", requires_grad=True)
        seen = []

        def block(t):
            out = torch.nn.functional.dropout(t, 0.5)
            seen.append(out.detach().cpu())
            return out

        with set_checkpoint_early_stop(False):
            checkpoint(block, x, use_reentrant=False).sum().backward()
        self.assertEqual(seen[0], seen[1])


if __name__ == "__main__":
    run_tests()
