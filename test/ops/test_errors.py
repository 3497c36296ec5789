"""Mistakes raise the CPU's type of exception; test/ops/sweep.py errors compares all of torch's error inputs."""

import errors
import pytest
import torch

import torch_npu  # noqa: F401

pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no npu is available")
OPERATORS = ("add", "cat", "linalg.cross", "masked_fill", "nn.functional.gelu", "nn.functional.huber_loss", "nn.functional.max_unpool2d",
             "nn.functional.multi_margin_loss", "nn.functional.multilabel_margin_loss", "ormqr", "roll", "sum", "where")


@pytest.mark.parametrize("name", [f"{op}#{number}" for op in OPERATORS if op in errors.OPS for number in range(len(errors.inputs(op)))])
def test_raises_what_the_cpu_raises(name):
    result = errors.Comparison(name, torch.float32).compare()
    if result.status == "none":
        pytest.skip("the CPU accepts this input")
    assert result.status == "pass", result.detail
