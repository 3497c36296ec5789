import numpy as np
import torch

import torch_npu  # noqa: F401
from torch_npu.testing.common_utils import create_common_tensor
from torch_npu.testing.testcase import TestCase, run_tests


class TestAddOut(TestCase):
    def test_add_out_resizes_nothing(self):
        cpu_input, npu_input = create_common_tensor((np.float32, 2, (3, 4)), -1, 1)
        cpu_out, npu_out = torch.empty(3, 4), torch.empty(3, 4).npu()
        torch.add(cpu_input, 2.5, alpha=2, out=cpu_out)
        torch.add(npu_input, 2.5, alpha=2, out=npu_out)
        self.assertRtolEqual(cpu_out, npu_out.cpu())


if __name__ == "__main__":
    run_tests()
