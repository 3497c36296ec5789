import os
import tempfile

import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestSerialization(TestCase):
    def test_save_and_load(self):
        x = torch.randn(5).npu()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.pt")
            torch.save({"x": x}, path)
            self.assertRtolEqual(torch.load(path)["x"].cpu(), x.cpu())
            self.assertEqual(torch.load(path)["x"].device, x.device)
            self.assertEqual(torch.load(path, map_location="cpu")["x"].device.type, "cpu")


if __name__ == "__main__":
    run_tests()
