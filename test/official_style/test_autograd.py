import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestAutograd(TestCase):
    def test_gradcheck_like_difference(self):
        x = torch.tensor([0.3, -0.7], device="npu", requires_grad=True)
        torch.tanh(x).sum().backward()
        self.assertRtolEqual((1 - torch.tanh(x.detach()) ** 2).cpu(), x.grad.cpu())

    def test_hooks(self):
        seen = []
        x = torch.ones(2, device="npu", requires_grad=True)
        x.register_hook(lambda grad: seen.append(grad.device.type))
        (x * 3).sum().backward()
        self.assertEqual(seen, ["npu"])


if __name__ == "__main__":
    run_tests()
