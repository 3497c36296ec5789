import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, onlyPRIVATEUSE1, ops, skipPRIVATEUSE1
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import run_tests

import torch_npu  # noqa: F401
import torch_npu.testing  # noqa: F401


class TestGeneric(common_utils.TestCase):
    @dtypes(torch.float32, torch.int64)
    def test_arange(self, device, dtype):
        x = torch.arange(4, device=device, dtype=dtype)
        self.assertEqual(x.cpu().tolist(), [0, 1, 2, 3])
        self.assertEqual(x.device.type, "npu")

    @onlyPRIVATEUSE1
    def test_type_of_device(self, device):
        self.assertEqual(torch.device(device).type, "npu")

    @skipPRIVATEUSE1
    def test_elsewhere(self, device):
        self.fail("not for npu")

    @ops([op for op in op_db if op.name in ("add", "sin")], allowed_dtypes=(torch.float32,))
    def test_samples(self, device, dtype, op):
        for sample in op.sample_inputs("cpu", dtype):
            expected = op(sample.input, *sample.args, **sample.kwargs)
            moved = sample.transform(lambda t: t.to(device) if isinstance(t, torch.Tensor) else t)
            self.assertEqual(op(moved.input, *moved.args, **moved.kwargs).cpu(), expected)


instantiate_device_type_tests(TestGeneric, globals(), only_for="privateuse1")


if __name__ == "__main__":
    run_tests()
