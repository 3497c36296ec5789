import torch

from torch_npu.testing import TestCase


class Addition(TestCase):
    def test_add(self):
        x = torch.arange(4.0)
        self.assertEqual((x.npu() + 1).cpu(), x + 1)
