import torch

import torch_npu
from torch_npu.testing.common_utils import create_dtype_tensor
from torch_npu.testing.decorator import Dtypes, Formats, instantiate_tests
from torch_npu.testing.testcase import TestCase, run_tests


class TestFormatCast(TestCase):
    @Dtypes(torch.float, torch.half)
    @Formats(2, 29)
    def test_values_stay(self, dtype, npu_format):
        cpu_input, npu_input = create_dtype_tensor((32, 48), dtype, npu_format)
        self.assertEqual(torch_npu.get_npu_format(npu_input), npu_format)
        self.assertRtolEqual(cpu_input.numpy(), npu_input.cpu().numpy())


instantiate_tests(TestFormatCast)


if __name__ == "__main__":
    run_tests()
