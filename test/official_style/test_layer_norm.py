import numpy as np
import torch

import torch_npu  # noqa: F401
from torch_npu.testing.common_utils import create_common_tensor
from torch_npu.testing.testcase import TestCase, run_tests


class TestLayerNorm(TestCase):
    def test_layer_norm_half(self):
        cpu_input, npu_input = create_common_tensor((np.float16, -1, (4, 16)), -3, 3)
        module = torch.nn.LayerNorm(16)
        expected = module(cpu_input.float()).half()
        self.assertRtolEqual(expected.detach().numpy(), module.npu().half()(npu_input).detach().cpu().numpy(), prec16=1.e-2)


if __name__ == "__main__":
    run_tests()
