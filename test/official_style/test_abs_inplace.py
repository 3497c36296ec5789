import numpy as np

import torch_npu  # noqa: F401
from torch_npu.testing.common_utils import create_common_tensor
from torch_npu.testing.testcase import TestCase, run_tests


class TestAbsInplace(TestCase):
    def test_abs_is_done_in_place(self):
        cpu_input, npu_input = create_common_tensor((np.float32, 0, (4, 3)), -5, 5)
        address = npu_input.data_ptr()
        self.assertRtolEqual(cpu_input.abs_().numpy(), npu_input.abs_().cpu().numpy())
        self.assertEqual(address, npu_input.data_ptr())

    def test_abs_non_contiguous(self):
        cpu_input, npu_input = create_common_tensor((np.float16, -1, (4, 6)), -5, 5)
        self.assertRtolEqual(cpu_input.t()[::2].abs(), npu_input.t()[::2].abs().cpu())


if __name__ == "__main__":
    run_tests()
