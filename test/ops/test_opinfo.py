"""Every operator of torch's OpInfo database on npu equals the CPU, with the CPU fallback forbidden.

The first and the last sample of each operator in every dtype of the sweep, in a worker process; test/ops/sweep.py takes all. What is
not supported or fails for now is listed in test/expect; of these pairs all samples are taken, so that a row which is not needed shows.
"""

import expect
import opinfo
import pytest
import sweep
import torch

SAMPLES = 2
CHECKS = ("forward", "out", "inplace", "backward")
PAIRS = {(op, str(dtype).removeprefix("torch.")) for op, dtype in opinfo.pairs([getattr(torch, name) for name in sweep.DTYPES])}
LISTED = {(op, dtype) for op, dtype, _ in expect.cells(*CHECKS)}


@pytest.mark.parametrize("op", [op for op in opinfo.OPS if any((op, dtype) in PAIRS for dtype in sweep.DTYPES)])
def test_equals_the_cpu(op, comparer):
    surprises, statuses = [], set()
    for dtype in sweep.DTYPES:
        if (op, dtype) in PAIRS:
            complete = (op, dtype) in LISTED
            checks = comparer.compare(op, dtype, None if complete else SAMPLES)["checks"]
            surprises += expect.surprises(op, dtype, checks, complete)
            statuses |= {check["status"] for check in checks.values()}
    assert not surprises, "\n".join(surprises)
    if statuses == {"none"}:
        pytest.skip("the CPU has no samples of this operator")


def test_rows_of_the_lists_name_pairs_of_the_database():
    assert LISTED <= PAIRS
