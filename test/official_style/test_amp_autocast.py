import torch

import torch_npu
from torch_npu.testing.testcase import TestCase, run_tests


class TestAutocast(TestCase):
    def test_types(self):
        x, y = torch.randn(4, 4).npu(), torch.randn(4, 4).npu()
        with torch_npu.npu.amp.autocast():
            self.assertEqual((x @ y).dtype, torch.float16)
            self.assertEqual(torch.softmax(x @ y, -1).dtype, torch.float32)
        with torch.autocast("npu", dtype=torch.bfloat16):
            self.assertEqual((x @ y).dtype, torch.bfloat16)
        self.assertEqual((x @ y).dtype, torch.float32)

    def test_switch(self):
        with torch.npu.amp.autocast(enabled=False):
            self.assertFalse(torch.npu.is_autocast_enabled())


if __name__ == "__main__":
    run_tests()
