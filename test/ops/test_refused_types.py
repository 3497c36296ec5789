"""Types that the CPU refuses raise the CPU's exception, at once; test/ops/sweep.py types compares all. Of these: what test/expect lists."""

import expect
import pytest
import refused_types

OPERATORS = ("addmm", "linalg.cholesky", "matrix_exp", "nn.functional.conv2d", "softmax")
LISTED = {(op, dtype) for op, dtype, _ in expect.cells("refused")}
PAIRS = [(op, str(dtype).removeprefix("torch.")) for op, dtype in refused_types.pairs()]


@pytest.mark.parametrize("op", dict.fromkeys(op for op, dtype in PAIRS if op in OPERATORS or (op, dtype) in LISTED))
def test_refuses_what_the_cpu_refuses(op, comparer):
    surprises = []
    for dtype in [dtype for name, dtype in PAIRS if name == op]:
        surprises += expect.surprises(op, dtype, comparer.compare(op, dtype, None, "types")["checks"])
    assert not surprises, "\n".join(surprises)


def test_rows_of_the_list_name_pairs_of_the_database():
    assert LISTED <= set(PAIRS)
