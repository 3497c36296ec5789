"""Failures: every other rank raises in time, with the rank and the collective; nothing hangs, nothing is left behind."""

import os
import socket

import fault_cases as cases
import pytest
import torch
import torch.distributed as dist
from world import World


@pytest.fixture
def three():
    with World(3, cases.start) as world:
        yield world


def replies(world, ranks):
    return [world.receive(rank) for rank in ranks]


def test_killed_rank_is_named(three):
    three.send(cases.all_reduce_for_ever)
    assert not three.connections[0].poll(1.0)
    three.kill(1)
    for status, text in replies(three, (0, 2)):
        assert status == "ok" and "rank 1's process has ended" in text and "all_reduce" in text, text


def test_rank_that_ends_before_the_first_collective_is_named():
    with World(3, cases.ready) as world:
        world.run(cases.init_without_collective, 1800)
        world.send(cases.all_reduce_once, ranks=[0, 2])
        world.kill(1)
        for status, text in replies(world, (0, 2)):
            assert status == "ok" and "Rank 1's process has ended" in text and "all_reduce" in text, text


def test_first_rank_that_ends_before_the_first_collective_does_not_hang_the_others():
    with World(2, cases.ready) as world:
        world.run(cases.init_without_collective, 1800)
        world.send(cases.all_reduce_once, ranks=[1])
        world.kill(0)
        status, text = world.receive(1)
        assert status == "ok" and text, text


def test_late_rank_is_named_and_reaches_asynchronous_work():
    with World(2, cases.ready) as world:
        world.run(cases.start, 5)
        world.send(cases.asynchronous_all_reduce, ranks=[0])
        status, (first, second) = world.receive(0)
        assert status == "ok" and "rank 1 did not come within 5 s" in first and "all_reduce" in first, first
        assert "rank 1 did not come" in second or "failed" in second, second


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("different_shapes", "rank 1 all_reduce(float32, 1025 elements, sum)"),
        ("different_dtypes", "rank 1 all_reduce(int32, 1024 elements, sum)"),
        ("different_order", "rank 1 broadcast(float32, 8 elements, root 0)"),
    ],
    ids=["shapes", "dtypes", "order"],
)
def test_disagreement_is_named(pair, case, words):
    for text, value in pair.run(cases.in_new_group, case):
        assert "the ranks called different collectives" in text and words in text, text
        assert value == 2.0


@pytest.mark.parametrize("reaction", ["0", "1", "3"])
@pytest.mark.parametrize(
    ("elements", "dtypes", "words"),
    [
        ((4, 8), (torch.float32, torch.float32), "rank 0 sends 16 bytes of float32, rank 1 expects 32 bytes of float32"),
        ((4, 4), (torch.float32, torch.int32), "rank 0 sends 16 bytes of float32, rank 1 expects 16 bytes of int32"),
    ],
    ids=["sizes", "dtypes"],
)
def test_message_that_does_not_fit_is_an_error_of_both_ranks(reaction, elements, dtypes, words):
    """Whatever TORCH_HCCL_ASYNC_ERROR_HANDLING is; and the communicator of two ranks has a name of its own."""
    with World(2, cases.start, {"TORCH_HCCL_ASYNC_ERROR_HANDLING": reaction}) as world:
        for text in world.run(cases.transfer, elements, dtypes):
            assert words in text and "of communicator 0:0-1" in text, text


def test_failure_is_that_of_the_collective_that_failed(pair):
    for answers in pair.run(cases.blame):
        for good, error_of_good, bad, error_of_bad, exception in answers:
            assert good and error_of_good == "", error_of_good
            assert not bad and "different collectives" in error_of_bad and "different collectives" in exception, exception


def test_late_receive_is_not_compared_with_collectives(pair):
    failure, error = pair.run(cases.late_transfer)[0]
    assert failure.startswith("recv #2 of group") and failure.endswith("did not end within 5000 ms."), failure
    assert failure in error, error


def test_hccl_speaks_before_the_watchdog(pair):
    failure, error = pair.run(cases.late_collective)[0]
    assert "rank 1 did not come within 5 s" in failure and failure in error, (failure, error)


def test_limit_of_a_wait_counts_for_a_barrier():
    with World(2, cases.start) as world:
        world.send(cases.barrier_with_limit, ranks=[0])
        status, text = world.receive(0)
        assert status == "ok" and "barrier #2 did not end within 500 ms" in text, text


def test_rank_that_exits_early_is_named():
    with World(2, cases.start) as world:
        world.send(cases.exit_early, ranks=[1])
        assert world.receive(1)[0] == "gone"
        world.send(cases.all_reduce_once, ranks=[0])
        status, text = world.receive(0)
        assert status == "ok" and "rank 1's process has ended" in text and text.count("all_reduce") == 1, text
        assert "process or card that takes part in this work is gone" in text, text


def test_rank_that_never_comes_to_its_first_collective_is_named():
    with World(3, cases.ready) as world:
        world.run(cases.init_without_collective, 5)
        world.send(cases.all_reduce_once, ranks=[0, 2])
        for status, text in replies(world, (0, 2)):
            assert status == "ok" and "Rank 1 of 3 did not come" in text and "all_reduce" in text, text


def test_group_can_be_rebuilt_in_the_same_processes(pair):
    for error, value in pair.run(cases.rebuild):
        assert "different collectives" in error and value == 2.0


def test_rounds_leave_nothing_behind():
    with World(2) as world:
        before_files = shared_objects()
        for before, after in world.run(cases.rounds, int(os.environ.get("NPU_TEST_ROUNDS", "30")), timeout=600):
            assert after[0] <= before[0] + 2 and after[1] <= before[1] + 2, (before, after)
            assert after[2] <= before[2] + 10 and after[3] <= before[3] + 4096, (before, after)
    assert shared_objects() == before_files


def shared_objects():
    return sorted(name for name in os.listdir("/dev/shm") if "softnpu" in name or "hccl" in name)


def test_refused_memory_for_the_control_block_is_told_to_all(pair):
    for error, value in pair.run(cases.limited, "RLIMIT_FSIZE", 0, 4096):
        assert "the host refused" in error and "control block" in error and "all_reduce on rank" in error, error
        assert value == 2.0


@pytest.mark.parametrize("rank", [0, 1])
def test_limit_of_descriptors_is_an_error_of_all_ranks(rank):
    """Wherever it is met: a communicator is made with room for 0, 1, 2, ... more descriptors, until that is enough."""
    with World(2, cases.start, {"HCCL_CONNECT_TIMEOUT": "3"}) as world:
        world.run(cases.limited, "RLIMIT_NOFILE", rank, 1000)  # what is opened once is open
        before = world.run(cases.descriptors)[rank]
        for room in range(30):
            replies = world.run(cases.limited, "RLIMIT_NOFILE", rank, room)
            errors = [error for error, _ in replies]
            assert [value for _, value in replies] == [2.0, 2.0]
            if not any(errors):
                break
            assert "ulimit -n" in errors[rank] and f"all_reduce on rank {rank}" in errors[rank], errors
            assert any(words in errors[1 - rank] for words in ("ulimit -n", "HCCL_CONNECT_TIMEOUT", "its own error")), errors
            assert f"all_reduce on rank {1 - rank}" in errors[1 - rank], errors
            assert world.run(cases.descriptors, before)[rank] <= before
        assert 1 < room < 30


def test_port_in_use_is_an_error_in_time():
    with socket.socket() as other, World(2, cases.ready) as world:
        other.bind(("127.0.0.1", 0))
        (first, _), (second, seconds) = world.run(cases.init_at, f"tcp://127.0.0.1:{other.getsockname()[1]}", 5)
        assert "EADDRINUSE" in first, first
        assert "timed out" in second and seconds < 60, (second, seconds)


def test_communicator_of_an_earlier_run_is_an_error():
    """The store still has the root info of processes that are gone, and rank 1 finds it before rank 0 replaces it."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with World(2, cases.ready, {"HCCL_CONNECT_TIMEOUT": "3"}) as world:
        assert "ulimit -n" in world.run(cases.init_in_store, store.port, 2, timeout=60)[1]
        for rank in range(2):
            world.kill(rank)
    with World(2, cases.ready, {"HCCL_CONNECT_TIMEOUT": "3"}) as world:
        world.send(cases.init_in_store, store.port, ranks=[1])
        status, text = world.receive(1)
        assert status == "ok" and "earlier run" in text and "all_reduce on rank 1" in text, text
        world.send(cases.init_in_store, store.port, ranks=[0])
        status, text = world.receive(0)
        assert status == "ok" and "rank 1 of 2 did not come within 3 s" in text and "all_reduce on rank 0" in text, text


def test_store_can_be_used_again():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with World(2, cases.ready) as world:
        assert world.run(cases.twice_in_store, store.port, timeout=60) == [[2.0, 2.0]] * 2


def test_a_card_that_is_stopped_releases_who_waits_for_a_collective():
    with World(2, cases.start) as world:
        (texts, first), (nothing, second) = world.run(cases.stopped_while_waiting, timeout=60)
    assert len(texts) == 3 and "0" in texts and nothing == []
    assert all(text.startswith("FORCE STOP.") for text in texts if text != "0"), texts
    assert first == second == [2.0] * 4
