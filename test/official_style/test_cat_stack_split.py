import numpy as np
import torch

import torch_npu  # noqa: F401
from torch_npu.testing.common_utils import create_common_tensor
from torch_npu.testing.testcase import TestCase, run_tests


class TestCat(TestCase):
    def test_cat_of_views(self):
        cpu_input, npu_input = create_common_tensor((np.float16, -1, (4, 6)), -1, 1)
        for x, y in ((cpu_input, npu_input), (cpu_input.t(), npu_input.t())):
            self.assertRtolEqual(torch.cat([x, x], 0), torch.cat([y, y], 0).cpu())

    def test_split_and_stack(self):
        x = torch.arange(12).view(3, 4).npu()
        parts = torch.split(x, 2, dim=1)
        self.assertEqual([list(part.shape) for part in parts], [[3, 2], [3, 2]])
        self.assertEqual(torch.stack(parts).cpu().sum().item(), 66)


if __name__ == "__main__":
    run_tests()
