"""Products fused with collectives. The bodies are in fused_cases.py and run in the ranks."""

import fused_cases as cases
import pytest
from world import World, start_hccl


@pytest.mark.parametrize("name", ["mm_all_reduce", "all_gather_mm", "mm_reduce_scatter", "alltoallv_gmm", "in_order_with_other_work",
                                  "subgroup", "shapes_without_a_card"])
def test_case(world, name):
    world.run(getattr(cases, name))


@pytest.mark.parametrize("queue", ["0", "2"])
def test_any_task_queue(queue):
    with World(2, start_hccl, {"TASK_QUEUE_ENABLE": queue}) as world:
        world.run(cases.in_order_with_other_work)


def test_bad_arguments_are_named(pair):
    for messages in pair.run(cases.refused):
        for message, expected in zip(messages, [
            'there is no communicator "nobody" on card', 'reduce_op is "max", expected "sum"', "belong to quantised operands",
            "x1 has 6 columns, x2 4 rows", "the gathered tensor has 72 elements, expected 24 of each of 2 ranks",
            "does not support gather_index", "4 rows of input do not divide among 3 ranks",
            "the rows of self do not divide into those of out for each of 2 ranks",
        ], strict=True):
            assert expected in message
