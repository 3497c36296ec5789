import numpy as np
import torch

import torch_npu  # noqa: F401
from torch_npu.testing.common_utils import create_common_tensor
from torch_npu.testing.testcase import TestCase, run_tests


class TestIndexSelect(TestCase):
    def test_index_select_every_dim(self):
        cpu_input, npu_input = create_common_tensor((np.float32, 0, (4, 5, 6)), -100, 100)
        index = torch.tensor([3, 0, 3])
        for dim in (0, 1, 2, -1):
            expected = torch.index_select(cpu_input, dim, index)
            self.assertRtolEqual(expected.numpy(), torch.index_select(npu_input, dim, index.npu()).cpu().numpy())

    def test_index_out_of_range_is_an_error(self):
        x = torch.randn(3).npu()
        with self.assertRaises((IndexError, RuntimeError)):
            torch.index_select(x, 4, torch.tensor([0]).npu())


if __name__ == "__main__":
    run_tests()
