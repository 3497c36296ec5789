import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestBatchNorm(TestCase):
    def test_statistics_follow_the_cpu(self):
        cpu_module = torch.nn.BatchNorm2d(4)
        npu_module = torch.nn.BatchNorm2d(4).npu()
        for _ in range(3):
            x = torch.randn(2, 4, 5, 5)
            self.assertRtolEqual(cpu_module(x).detach(), npu_module(x.npu()).detach().cpu())
        self.assertRtolEqual(cpu_module.running_mean, npu_module.running_mean.cpu())
        self.assertEqual(npu_module.num_batches_tracked.item(), 3)
        self.assertRtolEqual(cpu_module.eval()(x).detach(), npu_module.eval()(x.npu()).detach().cpu())


if __name__ == "__main__":
    run_tests()
