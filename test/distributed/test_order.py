"""SOFTNPU_STRICT=calls refuses a communicator that two streams use at once, and memory that they share without order: the group
keeps both apart, whatever its callers wait for."""

import order_cases as cases
import pytest
from world import World, start_hccl


@pytest.fixture(scope="module", params=["0", "2"])
def strict(request):
    variables = {"SOFTNPU_STRICT": "calls", "SOFTNPU_HOSTILE": "3", "SOFTNPU_ASYNC": "1", "TASK_QUEUE_ENABLE": request.param}
    with World(2, start_hccl, variables) as world:
        yield world


def test_collectives_of_one_communicator_are_in_order(strict):
    for results in strict.run(cases.overlapping_collectives):
        assert results == [[2.0 * (i + k) for k in range(3)] for i in range(20)]


def test_messages_of_both_directions_do_not_share_a_communicator(strict):
    for rank, results in enumerate(strict.run(cases.crossing_messages)):
        assert results == [[float(i + rank)] * 2 for i in range(10)]
