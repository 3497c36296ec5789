"""Collectives of torch.distributed on npu tensors. The bodies are in collective_cases.py and run in the ranks."""

import collective_cases as cases
import pytest

SHORT = ["complex_sum", "premul_sum", "uneven", "coalesced", "subgroups", "objects", "async_work", "functional"]


def test_every_dtype_and_reduction(pair):
    pair.run(cases.every_dtype)


def test_every_size(world):
    world.run(cases.every_size)


@pytest.mark.parametrize("name", SHORT)
def test_case(world, name):
    world.run(getattr(cases, name))


def test_two_groups_on_two_streams(world):
    world.run(cases.groups_on_two_streams)


def test_bitwise_reductions_are_refused(pair):
    for messages in pair.run(cases.refused_reductions):
        assert messages == [f"Cannot use ReduceOp.{name} with HCCL" for name in ("BAND", "BOR", "BXOR")]
