"""Division on the npu against the CPU, with the CPU fallback forbidden. Run it: python3 test_div.py"""

import os
import unittest

os.environ.setdefault("TORCH_NPU_FALLBACK_CPU_DISABLE", "1")

import torch

import torch_npu  # noqa: F401
from torch_npu.testing import TestCase

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
ROUNDING = (None, "trunc", "floor")


def numbers(*shape, dtype=torch.float32):
    """Positive and negative numbers, no zero, the same in every run."""
    count = torch.Size(shape).numel()
    values = torch.arange(1, count + 1) * 7 % 23 + 1
    if dtype != torch.uint8:
        values[::2] *= -1
    return values.reshape(shape).to(dtype) if not dtype.is_floating_point else (values / 4).reshape(shape).to(dtype)


class TestDiv(TestCase):
    def test_tensor_by_tensor(self):
        self.assert_like_cpu(torch.div, numbers(5, 7), numbers(5, 7) + 0.125)

    def test_tensor_by_scalar(self):
        for scalar in (3, -0.5, True):
            self.assert_like_cpu(lambda x: x / scalar, numbers(5, 7))

    def test_scalar_by_tensor(self):
        for scalar in (3, -0.5):
            self.assert_like_cpu(lambda x: scalar / x, numbers(5, 7))

    def test_zero_dimensional_tensor_of_either_device(self):
        self.assert_like_cpu(torch.div, numbers(4), torch.tensor(-3.0))
        expected = numbers(4) / torch.tensor(3.0, dtype=torch.float64)
        self.assert_equal(numbers(4).npu() / torch.tensor(3.0, dtype=torch.float64), expected)

    def test_broadcast(self):
        for left, right in (((3, 1, 5), (4, 1)), ((1,), (6, 2)), ((2, 3), (3,)), ((0, 3), (1, 3)), ((), (4,))):
            self.assert_like_cpu(torch.div, numbers(*left), numbers(*right))

    def test_rounding_modes(self):
        for mode in ROUNDING:
            for dtype in (*FLOATS, *INTEGERS):
                with self.subTest(mode=mode, dtype=dtype):
                    x, y = numbers(6, 5, dtype=dtype), numbers(5, dtype=dtype)
                    self.assert_like_cpu(lambda x, y: torch.div(x, y, rounding_mode=mode), x, y)
                    self.assert_like_cpu(lambda x: torch.div(x, 3, rounding_mode=mode), x)

    def test_operators_floor_divide_and_true_divide(self):
        self.assert_like_cpu(lambda x, y: x // y, numbers(8), numbers(8) + 0.5)
        self.assert_like_cpu(torch.true_divide, numbers(8, dtype=torch.int32), numbers(8, dtype=torch.int32))

    def test_unknown_rounding_mode(self):
        with self.assertRaisesRegex(RuntimeError, "rounding_mode"):
            torch.div(numbers(2).npu(), 2, rounding_mode="up")

    def test_integers_divide_to_float(self):
        for dtype in (torch.bool, *INTEGERS):
            with self.subTest(dtype=dtype):
                quotient = self.assert_like_cpu(torch.div, numbers(9, dtype=dtype), numbers(9, dtype=torch.int64))
                self.assertEqual(quotient.dtype, torch.float32)

    def test_float_dtypes_and_their_promotion(self):
        for left in FLOATS:
            for right in (*FLOATS, torch.int32):
                with self.subTest(left=left, right=right):
                    self.assert_like_cpu(torch.div, numbers(3, 4, dtype=left), numbers(3, 4, dtype=right))

    def test_strided(self):
        x, y = numbers(8, 6), numbers(6, 8)
        self.assert_like_cpu(lambda x, y: x / y.t(), x, y)
        self.assert_like_cpu(lambda x, y: x[::2, 1:] / y.t()[1::2, :5], x, y)
        self.assert_like_cpu(lambda x, y: x[:, :1].expand(8, 6) / y.t(), x, y)

    def test_out(self):
        def into(x, y, out):
            return torch.div(x, y, out=out)

        self.assert_like_cpu(into, numbers(4, 3), numbers(4, 3), torch.zeros(4, 3))
        self.assert_like_cpu(into, numbers(4, 3), numbers(4, 3), torch.empty(0))
        self.assert_like_cpu(into, numbers(4, 3), numbers(4, 3), torch.zeros(4, 3, dtype=torch.float64))
        self.assert_like_cpu(lambda x, y, out: into(x, y, out[:, ::2]), numbers(4, 3), numbers(4, 3), torch.zeros(4, 6))

    def test_out_that_cannot_hold_the_result(self):
        with self.assertRaisesRegex(RuntimeError, "can't be cast"):
            torch.div(numbers(3).npu(), 2, out=torch.zeros(3, dtype=torch.int64).npu())

    def test_in_place(self):
        self.assert_like_cpu(lambda x, y: x.div_(y), numbers(4, 3), numbers(3))
        self.assert_like_cpu(lambda x: x.div_(3), numbers(4, 3))
        self.assert_like_cpu(lambda x, y: x.t().div_(y), numbers(4, 3), numbers(3, 4))
        self.assert_like_cpu(lambda x: x.div_(3, rounding_mode="floor"), numbers(9, dtype=torch.int32))

    def test_in_place_into_integers(self):
        with self.assertRaisesRegex(RuntimeError, "can't be cast"):
            numbers(3, dtype=torch.int64).npu().div_(2)

    def test_by_zero(self):
        x = torch.tensor([1.0, -1.0, 0.0, float("inf"), float("nan")])
        for zero in (0.0, -0.0):
            for mode in ROUNDING:
                self.assert_like_cpu(lambda x: torch.div(x, zero, rounding_mode=mode), x)
                self.assert_like_cpu(
                    lambda x, y: torch.div(x, y, rounding_mode=mode), x, torch.full_like(x, zero)
                )
        self.assert_like_cpu(torch.div, torch.tensor([1, -1, 0]), torch.tensor([0, 0, 0]))

    def test_wrong_device(self):
        x = numbers(3)
        for left, right in ((x.npu(), x), (x, x.npu())):
            with self.assertRaisesRegex(RuntimeError, "same device"):
                left / right
        with self.assertRaisesRegex(RuntimeError, "device"):
            torch.div(x.npu(), x.npu(), out=torch.empty(3))


if __name__ == "__main__":
    unittest.main()
