import torch

import torch_npu
from torch_npu.testing.testcase import TestCase, run_tests


class TestRmsNorm(TestCase):
    def golden(self, x, gamma, epsilon):
        rstd = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + epsilon)
        return (x.float() * rstd * gamma.float()).to(x.dtype), rstd

    def test_rms_norm(self):
        for dtype in (torch.float32, torch.float16):
            x, gamma = torch.randn(4, 32, dtype=dtype), torch.randn(32, dtype=dtype)
            expected, rstd = self.golden(x, gamma, 1e-6)
            result, npu_rstd = torch_npu.npu_rms_norm(x.npu(), gamma.npu(), 1e-6)
            self.assertRtolEqual(expected.numpy(), result.cpu().numpy())
            self.assertRtolEqual(rstd.numpy(), npu_rstd.cpu().numpy(), prec=1.e-3)


if __name__ == "__main__":
    run_tests()
