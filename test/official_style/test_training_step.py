import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestTraining(TestCase):
    def step(self, device):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 5)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        x, y = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(3)).to(device), torch.tensor([0, 1, 2, 4]).to(device)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def test_losses_follow_the_cpu(self):
        self.assertRtolEqual(self.step("cpu"), self.step("npu"), prec=1.e-3)


if __name__ == "__main__":
    run_tests()
