"""Limits of cores: once in a process, and with the calls that the official client was seen to make."""

import json
from types import SimpleNamespace

import pytest
import torch

from torch_npu.npu import core_limits


def test_limits_are_what_was_set_once(check):
    print(check("""
n = torch.npu
assert n.get_device_limit(0) == {"cube_core_num": 24, "vector_core_num": 48}
n.set_device_limit(0, 12, vector_num=20)
assert n.get_device_limit(0) == {"cube_core_num": 12, "vector_core_num": 20} and n.get_device_limit(1)["cube_core_num"] == 24
try:
    n.set_device_limit(1, 3, 3)
except RuntimeError as error:
    assert "once in a process" in str(error)
else:
    raise AssertionError("a second call was taken")
assert (torch.ones(3).npu() + 1).sum().item() == 6
"""))


def test_calls_are_those_of_the_official_client(check, tmp_path):
    """Two of each, first the cube cores; the client was watched with SOFTNPU_RECORD."""
    file = tmp_path / "calls"
    check("torch.npu.get_device_limit(0); torch.npu.set_device_limit(0, 12, 20)", SOFTNPU_RECORD=str(file))
    names = [json.loads(line).get("f", "") for line in file.read_text().splitlines()]
    found = [name for name in names if name.endswith("ResLimit")]
    assert found == ["aclrtGetDeviceResLimit"] * 2 + ["aclrtSetDeviceResLimit"] * 2


@pytest.mark.parametrize(("arguments", "error", "words"), [
    ((0, 0, 3), ValueError, "cube_num must be 1 or more, or -1, got 0"), ((0, 3, -5), ValueError, "vector_num must be"),
    ((0, "a"), TypeError, "cube_num must be an int, but got str"), ((0,), ValueError, "give cube_num or vector_num"),
    ((99, 3, 3), AssertionError, "Invalid device id"), (("npu:0", 3), TypeError, "device must be an int, but got str"),
])
def test_bad_limits_are_named_and_change_nothing(arguments, error, words):
    before = torch.npu.get_device_limit(0)
    with pytest.raises(error, match=words):
        torch.npu.set_device_limit(*arguments)
    assert torch.npu.get_device_limit(0) == before


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_limits_of_a_stream_reach_the_planning_of_its_operators(check, tmp_path, level):
    """CANN plans in phase one, for the stream that the thread named last: the official client names it before every operator."""
    file = tmp_path / "calls"
    check("""
n = torch.npu
limited, free = n.current_stream(), n.Stream()
x = torch.ones(3, device="npu"); (x + 1).sum().item()
assert n.get_stream_limit(limited) == {"cube_core_num": 24, "vector_core_num": 48}
n.set_stream_limit(limited, 12, vector_num=20); n.set_stream_limit(limited, vector_num=7)
assert n.get_stream_limit(limited) == {"cube_core_num": 12, "vector_core_num": 7}
assert n.get_stream_limit(free) == {"cube_core_num": 24, "vector_core_num": 48}
for _ in range(2): assert (x + 1).sum().item() == 6
x.nonzero()
n.reset_stream_limit(limited)
assert n.get_stream_limit(limited) == {"cube_core_num": 24, "vector_core_num": 48}
""", SOFTNPU_RECORD=str(file), TASK_QUEUE_ENABLE=level)
    names = [json.loads(line).get("f", "") for line in file.read_text().splitlines()]
    first = names.index("aclrtSetStreamResLimit")
    used = [i for i, name in enumerate(names) if name == "aclrtUseStreamResInCurrentThread"]
    assert len(used) == 6 and used[0] > first  # two additions, two sums, nonzero and its result
    assert not any("PTA" in name for name in names[first:])  # an executor of the cache was planned for other limits
    assert names.count("aclrtResetStreamResLimit") == 1


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda n, s: n.get_stream_limit(None), AssertionError, "stream should be a torch.npu.Stream, but got NoneType"),
    (lambda n, s: n.reset_stream_limit(3), AssertionError, "stream should be a torch.npu.Stream, but got int"),
    (lambda n, s: n.set_stream_limit(s), ValueError, "set_stream_limit: give cube_num or vector_num"),
    (lambda n, s: n.set_stream_limit(s, 0), ValueError, "cube_num must be 1 or more"),
    (lambda n, s: n.set_stream_limit(s, vector_num=1.5), TypeError, "vector_num must be an int, but got float"),
    (lambda n, s: n.set_stream_limit(s, 1000), RuntimeError, "1000 is not in 1 to 24"),
])
def test_bad_limits_of_streams_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call(torch.npu, torch.npu.Stream())


def test_one_of_two_numbers_is_left_as_it_is(monkeypatch):
    """Each by itself; 1 is the least and -1 none; a refused call does not count as the one that is allowed."""
    n, last = torch.npu, torch.npu.device_count() - 1
    for given, found in (((1,), (1, 48)), ((-1, 1), (24, 1)), ((24, -1), (24, 48)), ((7, 8), (7, 8))):
        monkeypatch.setattr(core_limits, "_was_set", False)
        with pytest.raises(ValueError, match="cube_num must be"):
            n.set_device_limit(last, 0)
        n.set_device_limit(last, *given)
        assert tuple(n.get_device_limit(last).values()) == found
        with pytest.raises(RuntimeError, match="once in a process"):
            n.set_device_limit(last, 3)
        monkeypatch.setattr(core_limits, "_was_set", False)
        n.set_device_limit(last, 24, 48)


@pytest.mark.parametrize(("device", "error"), [(-1, AssertionError), (True, TypeError), (1.0, TypeError), (None, TypeError)])
def test_bad_cards_are_named(device, error):
    words = "Invalid device id" if error is AssertionError else f"device must be an int, but got {type(device).__name__}"
    with pytest.raises(error, match=words):
        torch.npu.get_device_limit(device)
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.npu.get_device_limit(torch.npu.device_count())


def test_limits_of_a_stream_by_themselves():
    n, stream = torch.npu, torch.npu.Stream()
    for given, found in (({"cube_num": 1}, (1, 48)), ({"vector_num": 1}, (1, 1)), ({"cube_num": 24, "vector_num": -1}, (24, 1))):
        n.set_stream_limit(stream, **given)
        assert tuple(n.get_stream_limit(stream).values()) == found
    n.reset_stream_limit(stream)
    assert n.get_stream_limit(stream) == n.get_device_limit(0)
    for given in ((True,), (-1, True), (-2,), (0,)):
        with pytest.raises((TypeError, ValueError), match="cube_num must be|vector_num must be"):
            n.set_stream_limit(stream, *given)


def test_the_time_limit_of_operators(monkeypatch):
    """In microseconds, on a card that is open: opening it sets a limit of its own."""
    given = []
    monkeypatch.setattr(core_limits, "_C", SimpleNamespace(set_op_timeout_us=lambda time: given.append(("limit", time))))
    card = SimpleNamespace(current_device=lambda: 1, set_device=lambda card: given.append(("card", card)))
    monkeypatch.setattr(core_limits, "devices", card)
    torch.npu.set_op_timeout_ms(0)
    torch.npu.set_op_timeout_ms(250)
    assert given == [("card", 1), ("limit", 0), ("card", 1), ("limit", 250000)]
    for timeout, error, words in ((True, TypeError, "timeout must be an int, but got bool"), ("1", TypeError, "but got str"),
                                  (-1, ValueError, "timeout must not be negative, got -1")):
        with pytest.raises(error, match=words):
            torch.npu.set_op_timeout_ms(timeout)
