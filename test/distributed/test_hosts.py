"""The path between hosts: torch's gloo moves npu tensors through host memory. The same collectives and training as in memory."""

import collective_cases
import fault_cases
import pytest
import tool_cases
import training_cases
from namespaces import Unavailable, two_hosts
from world import World, start_hccl


@pytest.fixture(scope="module")
def forced():
    with World(2, start_hccl, {"TORCH_NPU_HCCL_TRANSPORT": "gloo"}) as world:
        yield world


def test_every_dtype_reduction_and_size(forced):
    forced.run(collective_cases.every_dtype, (0, 1, 13))


@pytest.mark.parametrize("name", collective_cases.CASES)
def test_collective(forced, name):
    forced.run(getattr(collective_cases, name))


def test_bitwise_reductions_are_refused(forced):
    for messages in forced.run(collective_cases.refused_reductions):
        assert messages == [f"Cannot use ReduceOp.{name} with HCCL" for name in ("BAND", "BOR", "BXOR")]


@pytest.mark.parametrize("name", training_cases.CASES)
def test_training(forced, name):
    forced.run(getattr(training_cases, name))


def test_two_network_namespaces():
    """Nothing forced: the ranks find out that they share no memory."""
    try:
        with two_hosts() as hosts, World(2, start_hccl, **hosts) as world:
            assert world.run(tool_cases.backend_class) == ["StagedBackend"] * 2
            world.run(collective_cases.every_dtype)
            world.run(collective_cases.uneven)
            world.run(training_cases.ddp, "mlp")
            world.run(training_cases.fsdp2, "mlp")
    except Unavailable as error:
        pytest.skip(f"no network namespaces: {error}")


def test_killed_rank_is_an_error_that_names_the_collective():
    with World(2, fault_cases.start, {"TORCH_NPU_HCCL_TRANSPORT": "gloo"}) as world:
        world.send(fault_cases.all_reduce_for_ever)
        assert not world.connections[0].poll(1.0)
        world.kill(1)
        status, text = world.receive(0)
        assert status == "ok" and text.startswith("all_reduce between hosts failed on rank 0: "), text
        world.send(fault_cases.reinitialise, ranks=[0])
        assert "cannot be rebuilt" in world.receive(0)[1]
