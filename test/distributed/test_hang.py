"""python -m torch_npu.hang on ranks that wait: who is late, without disturbing anybody."""

import re
import time

import hang_cases as cases
import pytest

from torch_npu import hang


def verdict(world, pattern):
    """That of the ranks' processes, as soon as it is the expected one."""
    pids = [process.pid for process in world.processes]
    for _ in range(60):
        reports = [hang.look(pid) for pid in pids]
        verdicts = hang.verdicts(reports)
        if any(re.fullmatch(pattern, sentence) for sentence in verdicts):
            return reports
        time.sleep(0.2)
    raise AssertionError(verdicts)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_rank_that_has_not_called_the_collective_is_named(four, tmp_path, asynchronous):
    path = tmp_path / "go"
    four.send(cases.reduce_late, str(path), 2, asynchronous)
    try:
        reports = verdict(four, r"Rank 2 has not called all_reduce #(\d+); ranks 0, 1 and 3 wait in it since \d+ s\. "
                                r"Rank 2 is at hang_cases\.py:\d+ in load_for_ever\.")
    finally:
        path.touch()
    assert [hang.rank_of(report) for report in reports] == [0, 1, 2, 3]
    assert [four.receive(rank) for rank in range(4)] == [("ok", [16.0] * 4)] * 4  # it went on, undisturbed
    waiting, late = reports[0], reports[2]
    assert "all_reduce" in hang.running(waiting) and not hang.running(late) and waiting["moves"] is False
    assert "in reduce_late" in hang.place(waiting)
    rows = hang.table(reports).splitlines()
    assert re.fullmatch(r"0 +\d+ +0 +hang_cases\.py:\d+ in reduce_late +\d+ +all_reduce +no +all_reduce #\d+, \d+\.\d s", rows[1]), rows
    assert re.fullmatch(r"2 +\d+ +2 +hang_cases\.py:\d+ in load_for_ever +0 +- +no +-", rows[3]), rows


def test_a_receive_names_whom_it_waits_for(pair, tmp_path):
    path = tmp_path / "go"
    pair.send(cases.receive_late, str(path))
    try:
        verdict(pair, r"Rank 0 waits (in recv from rank 1 \(#\d+\)|for a communicator for recv) since \d+ s\..*"
                      r"( Rank 1 is at hang_cases\.py:\d+ in load_for_ever\.)?")
    finally:
        path.touch()
    assert [pair.receive(rank) for rank in range(2)] == [("ok", [1.0, 1.0])] * 2


def test_ranks_without_their_peers(four, tmp_path):
    path = tmp_path / "go"
    four.send(cases.reduce_late, str(path), 3, False)
    try:
        for _ in range(60):
            (sentence,) = hang.verdicts([hang.look(four.processes[0].pid)])
            if "wait" in sentence and not sentence.startswith("No collective"):
                break
            time.sleep(0.2)
    finally:
        path.touch()
    assert re.fullmatch(r"Rank 0 waits in all_reduce #\d+ since \d+ s\. Ranks 1, 2 and 3 are not among these processes: ended, or on "
                        r"another machine\.", sentence)
    assert [four.receive(rank)[0] for rank in range(4)] == ["ok"] * 4
