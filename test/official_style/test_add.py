import numpy as np
import torch

import torch_npu  # noqa: F401
from torch_npu.testing.common_utils import create_common_tensor
from torch_npu.testing.testcase import TestCase, run_tests


class TestAdd(TestCase):
    def cpu_op_exec(self, input1, input2):
        return torch.add(input1, input2).numpy()

    def npu_op_exec(self, input1, input2):
        return torch.add(input1, input2).to("cpu").numpy()

    def test_add_shape_format(self):
        shape_format = [[dtype, 0, shape] for dtype in (np.float32, np.float16) for shape in ((3,), (4, 5), (2, 3, 4, 5))]
        for item in shape_format:
            cpu_input1, npu_input1 = create_common_tensor(item, -100, 100)
            cpu_input2, npu_input2 = create_common_tensor(item, -100, 100)
            cpu_output = self.cpu_op_exec(cpu_input1, cpu_input2)
            npu_output = self.npu_op_exec(npu_input1, npu_input2)
            self.assertRtolEqual(cpu_output, npu_output)


if __name__ == "__main__":
    run_tests()
