import torch

import torch_npu  # noqa: F401
from torch_npu.testing.common_utils import freeze_rng_state
from torch_npu.testing.testcase import TestCase, run_tests


class TestRandom(TestCase):
    def test_seed_repeats(self):
        torch.npu.manual_seed(11)
        first = torch.randn(100, device="npu")
        torch.npu.manual_seed(11)
        self.assertEqual(first.cpu(), torch.randn(100, device="npu").cpu())

    def test_state_goes_back(self):
        state = torch.npu.get_rng_state()
        first = torch.rand(10, device="npu")
        torch.npu.set_rng_state(state)
        self.assertEqual(first.cpu(), torch.rand(10, device="npu").cpu())

    def test_freeze(self):
        with freeze_rng_state():
            first = torch.rand(3, device="npu")
        self.assertEqual(first.cpu(), torch.rand(3, device="npu").cpu())


if __name__ == "__main__":
    run_tests()
