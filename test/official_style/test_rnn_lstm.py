import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestLSTM(TestCase):
    def test_lstm_forward(self):
        module = torch.nn.LSTM(5, 7, num_layers=2, batch_first=True)
        x = torch.randn(3, 4, 5)
        expected, (h, c) = module(x)
        output, (npu_h, npu_c) = module.npu()(x.npu())
        self.assertRtolEqual(expected.detach(), output.detach().cpu(), prec=1.e-3)
        self.assertRtolEqual([h.detach(), c.detach()], [npu_h.detach().cpu(), npu_c.detach().cpu()], prec=1.e-3)


if __name__ == "__main__":
    run_tests()
