"""Calls that are wrong in one place, drawn for every operator from its cases: a tensor that is missing, on the CPU, of another type or
with other axes, a list that is too short, a number or a word that means nothing. They end with an error when they are made, or are as
good as the right ones; no task fails but for the numbers in a tensor, and the card works afterwards."""

import random
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from derived import OF_NUMBERS, placed, wrong_calls  # noqa: E402
from test_custom_ops import CASES, operator  # noqa: E402

DRAWN = 10  # calls of an operator
OF = defaultdict(list)
for _case in CASES:
    OF[_case.op].append(_case)
# Tensors of lengths, which the host reads anyway; numbers that torch takes from the CPU.
READ_BY_THE_HOST = re.compile(r"^never$")


def drawn(op):
    rng, names = random.Random(op), [a.name for a in operator(op)._schema.arguments]
    for _ in range(DRAWN):
        case = rng.choice(OF[op])
        if calls := list(wrong_calls(case, names)):
            yield rng.choice(calls)


@pytest.mark.parametrize("op", OF)
def test_wrong_calls_are_refused_when_they_are_made(op):
    for argument, wrong, args, kwargs in drawn(op):
        args, kwargs = placed((args, kwargs), "npu")
        try:
            operator(op)(*args, **kwargs)
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
            assert str(error) and "INTERNAL ASSERT" not in str(error), (argument, wrong)
        else:
            assert not wrong.endswith("of the CPU") or READ_BY_THE_HOST.search(f"{op} {argument}"), f"{argument} {wrong} is taken"
        try:
            torch.npu.synchronize()
        except RuntimeError as error:
            assert OF_NUMBERS.search(str(error)), f"{argument} {wrong}: {error}"
        assert (torch.ones(3, device="npu") + 1).tolist() == [2, 2, 2], (argument, wrong)
