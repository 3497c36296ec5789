"""torch_npu.testing: what its assertions notice."""

import os

import pytest
import torch

from torch_npu import testing
from torch_npu.testing import TestCase

CASE = TestCase()


def on_npu(x):
    return x.device.type == "npu"


def test_equal_results_pass_and_are_returned():
    result = CASE.assert_like_cpu(lambda x, y: {"sum": x + y, "size": 3}, torch.ones(2), torch.arange(2.0))
    assert result["sum"].is_npu and result["sum"].tolist() == [1, 2] and result["size"] == 3


@pytest.mark.parametrize("function", [
    lambda x: x + on_npu(x),
    lambda x: x.add_(on_npu(x)).sum() * 0,
    lambda x: x.double() if on_npu(x) else x,
    lambda x: x[:1] if on_npu(x) else x,
    lambda x: x.cpu(),
], ids=["values", "changed argument", "dtype", "shape", "device"])  # fmt: skip
def test_a_difference_is_noticed(function):
    with pytest.raises(AssertionError):
        CASE.assert_like_cpu(function, torch.ones(2))


def test_the_argument_stays_as_it_was_for_the_cpu():
    x = torch.ones(2)
    CASE.assert_like_cpu(lambda t: t.mul_(2), x)
    assert x.tolist() == [2, 2]  # by the call on the CPU alone


def test_tolerances_and_nan():
    CASE.assert_equal(torch.tensor([1.1, float("nan")]).npu(), torch.tensor([1.0, float("nan")]), rtol=0.2, atol=0)
    with pytest.raises(AssertionError):
        CASE.assert_equal(torch.tensor([1.1]).npu(), torch.tensor([1.0]))


def test_without_an_npu_tests_are_skipped(monkeypatch):
    import unittest

    monkeypatch.setattr("torch_npu.npu.is_available", lambda: False)
    with pytest.raises(unittest.SkipTest, match="no npu"):
        TestCase.setUpClass()


def test_structures_are_compared_whole():
    CASE.assert_equal({"a": [torch.ones(1).npu(), 2], "b": None}, {"a": [torch.ones(1), 2], "b": None})
    for wrong in ([torch.ones(1).npu(), 3], [torch.ones(1).npu()], [torch.zeros(1).npu(), 2], [torch.ones(1), 2]):
        with pytest.raises(AssertionError):
            CASE.assert_equal({"a": wrong, "b": None}, {"a": [torch.ones(1), 2], "b": None})
    CASE.assert_like_cpu(lambda a: a[0] + a[1]["x"] + on_npu(a[0]) * 0.1, (torch.ones(1), {"x": torch.ones(1)}), rtol=0, atol=0.2)


def test_names_of_torchs_test_utilities():
    from torch.testing._internal import common_device_type, common_utils

    for name in ("IS_FBCODE", "IS_SANDCASTLE", "TEST_MPS", "TEST_WITH_SLOW", "DISABLED_TESTS_FILE"):
        assert getattr(testing, name) is getattr(common_utils, name)
    for name in ("common_distributed", "common_utils", "decorator", "testcase"):
        assert testing.__getattr__(name).__name__ == f"torch_npu.testing.{name}"
    with pytest.raises(AttributeError, match="module 'torch_npu.testing' has no attribute 'nothing'"):
        testing.nothing  # noqa: B018
    assert common_device_type.onlyCUDA is common_device_type.onlyPRIVATEUSE1
    assert testing.update_skip_list() is None and os.environ["TORCH_NPU_FALLBACK_CPU_DISABLE"] == "1"


def test_decorators_of_an_operator_are_upstreams(monkeypatch):
    from torch.testing._internal.opinfo.core import OpInfo

    monkeypatch.setattr(OpInfo, "get_decorators", lambda *given: given)
    given = ("an OpInfo", "TestX", "test_x", "npu", torch.float32, {"a": 1})
    assert testing.get_decorators(*given) == given


@pytest.mark.parametrize("before", [None, "cuda"])
def test_what_importing_says_to_torch_and_to_the_plugin(run, before):
    code = """
import os, torch, torch_npu.testing
print(os.environ["PYTORCH_TESTING_DEVICE_FOR_CUSTOM"], os.environ["TORCH_NPU_FALLBACK_CPU_DISABLE"])
"""
    for fallback in (None, "0"):
        process = run(code, PYTORCH_TESTING_DEVICE_FOR_CUSTOM=before, TORCH_NPU_FALLBACK_CPU_DISABLE=fallback)
        assert process.stdout.split() == [before or "privateuse1", fallback or "1"], process.stderr
