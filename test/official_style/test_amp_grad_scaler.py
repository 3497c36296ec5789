import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestGradScaler(TestCase):
    def test_overflow_skips_the_step(self):
        model = torch.nn.Linear(4, 1).npu()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.npu.amp.GradScaler(init_scale=128.0)
        before = model.weight.detach().cpu().clone()
        scaler.scale(model(torch.ones(2, 4).npu()).sum() * float("inf")).backward()
        scaler.step(optimizer)
        scaler.update()
        self.assertEqual(model.weight.detach().cpu(), before)
        self.assertEqual(scaler.get_scale(), 64.0)

    def test_step(self):
        weight = torch.ones(2, device="npu", requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=1.0)
        scaler = torch.npu.amp.GradScaler()
        scaler.scale(weight.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        self.assertRtolEqual(weight.detach().cpu().numpy(), torch.zeros(2).numpy())


if __name__ == "__main__":
    run_tests()
