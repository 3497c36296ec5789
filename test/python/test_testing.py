"""torch_npu.testing: what its assertions notice."""

import pytest
import torch

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
