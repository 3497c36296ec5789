import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestEmbedding(TestCase):
    def test_gradient_of_repeated_rows(self):
        weight = torch.randn(6, 4)
        index = torch.tensor([1, 1, 5])
        gradients = []
        for device in ("cpu", "npu"):
            table = weight.to(device, copy=True).requires_grad_()
            torch.nn.functional.embedding(index.to(device), table).pow(2).sum().backward()
            gradients.append(table.grad.cpu())
        self.assertRtolEqual(gradients[0].numpy(), gradients[1].numpy())


if __name__ == "__main__":
    run_tests()
