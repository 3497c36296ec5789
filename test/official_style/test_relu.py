import numpy as np
import torch

import torch_npu  # noqa: F401
from torch_npu.testing.common_utils import create_common_tensor
from torch_npu.testing.testcase import TestCase, run_tests


class TestRelu(TestCase):
    def cpu_op_exec(self, input1):
        return torch.relu(input1).numpy()

    def npu_op_exec(self, input1):
        return torch.relu(input1).to("cpu").numpy()

    def test_relu_shape_format(self):
        shape_format = [[dtype, -1, shape] for dtype in (np.float32, np.float16) for shape in ((7,), (4, 5), (2, 3, 4))]
        for item in shape_format:
            cpu_input, npu_input = create_common_tensor(item, -10, 10)
            self.assertRtolEqual(self.cpu_op_exec(cpu_input), self.npu_op_exec(npu_input))


if __name__ == "__main__":
    run_tests()
