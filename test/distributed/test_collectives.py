"""Collectives of torch.distributed on npu tensors. The bodies are in collective_cases.py and run in the ranks."""

import collective_cases as cases
import pytest


def test_every_dtype_and_reduction(pair):
    pair.run(cases.every_dtype)


def test_every_size(world):
    world.run(cases.every_size)


@pytest.mark.parametrize("name", cases.CASES)
def test_case(world, name):
    world.run(getattr(cases, name))


def test_bitwise_reductions_are_refused(pair):
    for messages in pair.run(cases.refused_reductions):
        assert messages == [f"Cannot use ReduceOp.{name} with HCCL" for name in ("BAND", "BOR", "BXOR")]
