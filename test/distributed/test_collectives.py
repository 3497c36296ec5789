"""Collectives of torch.distributed on npu tensors. The bodies are in collective_cases.py and run in the ranks."""

import collective_cases as cases
import pytest
from world import World, start_hccl


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


def test_numbers_out_of_range_are_refused(pair):
    pair.run(cases.out_of_range)


def test_queued_collectives_hold_no_tensors():
    with World(2, start_hccl, {"TASK_QUEUE_ENABLE": "1"}) as world:
        world.run(cases.queued_memory)
