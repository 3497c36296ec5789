import numpy as np
import torch

import torch_npu  # noqa: F401
from torch_npu.testing.common_utils import create_common_tensor
from torch_npu.testing.testcase import TestCase, run_tests


class TestSort(TestCase):
    def test_sort_descending(self):
        cpu_input, npu_input = create_common_tensor((np.float32, -1, (3, 17)), -50, 50)
        cpu_values, cpu_order = torch.sort(cpu_input, descending=True)
        npu_values, npu_order = torch.sort(npu_input, descending=True)
        self.assertRtolEqual(cpu_values, npu_values.cpu())
        self.assertEqual(cpu_order, npu_order.cpu())

    def test_argsort_stable(self):
        values = torch.tensor([2, 1, 2, 1, 3])
        self.assertEqual(values.argsort(stable=True), values.npu().argsort(stable=True).cpu())


if __name__ == "__main__":
    run_tests()
