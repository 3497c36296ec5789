import torch

import torch_npu  # noqa: F401
from torch_npu.testing.common_utils import create_dtype_tensor
from torch_npu.testing.decorator import Dtypes, instantiate_tests
from torch_npu.testing.testcase import TestCase, run_tests


@instantiate_tests
class TestNeg(TestCase):
    @Dtypes(torch.float, torch.half, torch.int32)
    def test_neg(self, device, dtype):
        cpu_input, npu_input = create_dtype_tensor((3, 5), dtype, device=device)
        self.assertEqual(npu_input.device.type, "npu")
        self.assertRtolEqual((-cpu_input).numpy(), (-npu_input).cpu().numpy())

    def test_three_were_made(self):
        names = [name for name in dir(self) if name.startswith("test_neg")]
        self.assertEqual(names, ["test_neg_float16", "test_neg_float32", "test_neg_int32"])


if __name__ == "__main__":
    run_tests()
