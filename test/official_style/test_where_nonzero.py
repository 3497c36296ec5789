import numpy as np
import torch

import torch_npu  # noqa: F401
from torch_npu.testing.common_utils import create_common_tensor
from torch_npu.testing.testcase import TestCase, run_tests


class TestWhere(TestCase):
    def test_where(self):
        cpu_input, npu_input = create_common_tensor((np.float32, 0, (5, 5)), -1, 1)
        self.assertRtolEqual(torch.where(cpu_input > 0, cpu_input, -cpu_input), torch.where(npu_input > 0, npu_input, -npu_input).cpu())

    def test_nonzero(self):
        x = torch.tensor([[0, 1, 0], [2, 0, 3]])
        self.assertEqual(x.nonzero(), x.npu().nonzero().cpu())
        self.assertEqual(len(x.npu().nonzero(as_tuple=True)), 2)


if __name__ == "__main__":
    run_tests()
