import numpy as np
import torch.nn.functional as F

import torch_npu  # noqa: F401
from torch_npu.testing.common_utils import create_common_tensor
from torch_npu.testing.testcase import TestCase, run_tests


class TestConv2d(TestCase):
    def op_exec(self, input1, weight):
        input1.requires_grad = True
        weight.requires_grad = True
        output = F.conv2d(input1, weight, stride=2, padding=1)
        output.sum().backward()
        return output.detach().cpu(), input1.grad.cpu(), weight.grad.cpu()

    def test_conv2d_forward_and_backward(self):
        for shapes in (((2, 3, 8, 8), (4, 3, 3, 3)), ((1, 4, 5, 7), (2, 4, 1, 1))):
            cpu_input, npu_input = create_common_tensor((np.float32, 0, shapes[0]), -2, 2)
            cpu_weight, npu_weight = create_common_tensor((np.float32, 0, shapes[1]), -2, 2)
            for expected, result in zip(self.op_exec(cpu_input, cpu_weight), self.op_exec(npu_input, npu_weight)):
                self.assertRtolEqual(expected.numpy(), result.numpy(), prec=1.e-3)


if __name__ == "__main__":
    run_tests()
