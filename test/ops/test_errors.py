"""Mistakes raise the CPU's type of exception; test/ops/sweep.py errors compares all of torch's error inputs.

Of these: some operators, and what test/expect lists.
"""

import errors
import expect
import pytest

OPERATORS = ("add", "cat", "linalg.cross", "masked_fill", "multinomial", "nn.functional.gelu", "nn.functional.huber_loss", "ormqr", "roll",
             "nn.functional.max_unpool2d", "nn.functional.multi_margin_loss", "nn.functional.multilabel_margin_loss", "sum", "where")
NAMES = [f"{op}#{number}" for op in OPERATORS if op in errors.OPS for number in range(len(errors.inputs(op)))]


@pytest.mark.parametrize("name", dict.fromkeys(NAMES + [op for op, _, _ in expect.cells("raises")]))
def test_raises_what_the_cpu_raises(name, comparer):
    checks = comparer.compare(name, "float32", None, "errors")["checks"]
    surprises = expect.surprises(name, "float32", checks)
    assert not surprises, "\n".join(surprises)
    if checks["raises"]["status"] == "none":
        pytest.skip("the CPU accepts this input")
