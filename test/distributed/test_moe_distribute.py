"""Tokens that go to the cards of their experts, and come back. The bodies are in moe_distribute_cases.py and run in the ranks."""

import moe_distribute_cases as cases
import pytest
from world import World, start_hccl


@pytest.mark.parametrize("name", ["every_type", "layouts", "shared_experts", "masks", "quantised", "special_experts", "weights_go_along",
                                  "many_times", "shapes_without_a_card"])
def test_case(world, name):
    world.run(getattr(cases, name))


@pytest.mark.parametrize("queue", ["0", "2"])
def test_any_task_queue(queue):
    with World(2, start_hccl, {"TASK_QUEUE_ENABLE": queue}) as world:
        world.run(cases.many_times)


def test_bad_arguments_are_named(pair):
    for messages in pair.run(cases.refused):
        for message, expected in zip(messages, [
            'there is no communicator "nobody" on card', "ep_rank_id is 2", "moe_expert_num is 3, expected a multiple of the 2 cards",
            "does not support quant_mode 4", "the communicator has 2 ranks, the arguments say 3", "does not support y_dtype",
            "performance_info is not implemented", "tp_world_size is more than 1, which is not implemented", "comm_quant_mode is not 0",
        ], strict=True):
            assert expected in message
