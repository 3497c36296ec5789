"""Helpers for tests of the npu device: the CPU is the reference, and falling back to it is an error.

Import this before the npu is used: the fallback is forbidden from the first operator on. The modules testcase, common_utils,
common_distributed and decorator have the names that tests for the official plugin import. From this import on, torch's device-generic
tests (torch.testing._internal.common_device_type) make classes for the npu, and what is marked onlyCUDA runs on it.
"""

import os
import unittest

import torch
from torch.utils._pytree import tree_map_only

from torch_npu import npu
from torch_npu._after_import import after_import

os.environ.setdefault("TORCH_NPU_FALLBACK_CPU_DISABLE", "1")
os.environ.setdefault("PYTORCH_TESTING_DEVICE_FOR_CUSTOM", "privateuse1")

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
            unittest.TestCase.assertEqual(self, tensor.device.type, "npu")
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


def _run_cuda_tests_on_npu(common_device_type) -> None:
    common_device_type.onlyCUDA = common_device_type.onlyPRIVATEUSE1


after_import("torch.testing._internal.common_device_type", _run_cuda_tests_on_npu)

_OF_TORCH = ("DISABLED_TESTS_FILE", "IS_FBCODE", "IS_SANDCASTLE", "RERUN_DISABLED_TESTS", "SLOW_TESTS_FILE", "TEST_MPS", "TEST_SKIP_FAST",
             "TEST_WITH_SLOW")


def update_skip_list():
    """The official plugin takes its own failures out of torch's OpInfo lists here. This one has none to take out."""


def get_decorators(self, test_class, test_name, device, dtype, param_kwargs):
    """Of an OpInfo: upstream's decorators, without change."""
    from torch.testing._internal.opinfo.core import OpInfo

    return OpInfo.get_decorators(self, test_class, test_name, device, dtype, param_kwargs)


def __getattr__(name: str):
    if name in _OF_TORCH:  # importing torch's test utilities takes seconds
        from torch.testing._internal import common_utils

        return getattr(common_utils, name)
    if name in ("common_distributed", "common_utils", "decorator", "testcase"):
        from importlib import import_module

        return import_module(f"torch_npu.testing.{name}")
    raise AttributeError(f"module 'torch_npu.testing' has no attribute '{name}'")
