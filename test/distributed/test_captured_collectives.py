"""Collectives and messages inside of a captured graph: every replay is one more meeting of the ranks."""

import graph_cases as cases
import pytest
from world import World, start_hccl


@pytest.mark.parametrize("variables", [{}, {"TASK_QUEUE_ENABLE": "2"}, {"SOFTNPU_ASYNC": "1"}], ids=["plain", "queue", "async"])
def test_replays_meet_their_peers(variables):
    with World(2, start_hccl, variables) as world:
        for rank, results in enumerate(world.run(cases.captured)):
            for i, (y, z, got, sent, eager) in enumerate(results):
                total = 2 * i + 2 * (1 + i)
                assert (y, z, got, sent, eager) == (total, 2 * (total + 1), 2 * (total + 1), 2 * (total + 1) + rank, 2 * i)
