"""Helpers for tests of the npu device: the CPU is the reference, and falling back to it is an error.

Import this before the npu is used: the fallback is forbidden from the first operator on.
"""

import os
import unittest

import torch
from torch.utils._pytree import tree_map_only

from torch_npu import npu

os.environ["TORCH_NPU_FALLBACK_CPU_DISABLE"] = "1"

__all__ = ["TestCase"]


class TestCase(unittest.TestCase):
    """unittest.TestCase that compares with the CPU. Skips, never passes, where there is no npu."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        if not npu.is_available():
            raise unittest.SkipTest("no npu is available")

    def assert_equal(self, actual, expected, **tolerances) -> None:
        """Same structure, dtypes, shapes and values; `actual` must be on the npu where `expected` is a tensor."""

        def to_cpu(tensor: torch.Tensor) -> torch.Tensor:
            self.assertEqual(tensor.device.type, "npu")
            return tensor.cpu()

        actual = tree_map_only(torch.Tensor, to_cpu, actual)
        torch.testing.assert_close(actual, expected, equal_nan=True, **tolerances)

    def assert_like_cpu(self, function, *args, **tolerances):
        """Calls `function` with CPU arguments and with copies of them on the npu; results must be equal.

        Arguments that the function changes in place are compared too. Returns the npu's result.
        """
        npu_args = tree_map_only(torch.Tensor, lambda tensor: tensor.to("npu", copy=True), args)
        actual, expected = function(*npu_args), function(*args)
        self.assert_equal((actual, npu_args), (expected, args), **tolerances)
        return actual
