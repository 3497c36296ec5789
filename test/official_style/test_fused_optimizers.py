import torch

import torch_npu
from torch_npu.testing.testcase import TestCase, run_tests


class TestFusedAdam(TestCase):
    def test_follows_torch(self):
        start = torch.randn(6)
        losses = []
        for device, cls in (("cpu", torch.optim.AdamW), ("npu", torch_npu.optim.NpuFusedAdamW)):
            weight = torch.nn.Parameter(start.to(device, copy=True))
            optimizer = cls([weight], lr=0.1)
            for _ in range(4):
                optimizer.zero_grad()
                weight.pow(2).sum().backward()
                optimizer.step()
            losses.append(weight.detach().cpu())
        self.assertRtolEqual(losses[0].numpy(), losses[1].numpy())


if __name__ == "__main__":
    run_tests()
