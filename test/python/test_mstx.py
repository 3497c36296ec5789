"""torch.npu.mstx: ranges and marks that torch.profiler shows."""

import importlib
import inspect
import threading
from types import SimpleNamespace

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from torch_npu.npu import nvtx
from torch_npu.npu.mstx import annotate, mstx

# Of the official plugin 2.13.0.
SIGNATURES = {
    "mark": "(message: str, stream=None, domain: str = 'default')",
    "range_push": "(message: str, stream=None, domain: str = 'default') -> int",
    "range_pop": "(domain: str = 'default') -> int",
    "range_start": "(message: str, stream=None, domain: str = 'default') -> int",
    "range_end": "(range_id: int, domain: str = 'default')",
    "mstx_range": "(message: str, stream=None, domain: str = 'default')",
    "annotate": "(message: str = '', stream=None, domain: str = 'default')",
}


def names(work):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        work()
    return [event.key for event in profiler.key_averages()]


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature_is_the_official_one(name):
    assert str(inspect.signature(getattr(torch.npu.mstx, name))) == SIGNATURES[name]


def test_both_imports_give_the_class():
    assert torch.npu.mstx is mstx and mstx.annotate is annotate


def test_marks_and_ranges_are_in_the_profile():
    def work():
        mstx.mark("a mark", stream=torch.npu.current_stream())
        first, second = mstx.range_start("first"), mstx.range_start("second", domain="data")
        torch.ones(2).add(1)
        mstx.range_end(first)
        mstx.range_end(second, "data")

    assert {"a mark", "first", "data: second"} <= set(names(work))


def test_pushed_ranges_nest_by_domain_and_thread():
    assert mstx.range_push("outer") == 0 and mstx.range_push("inner") == 1
    assert mstx.range_push("other", domain="data") == 0
    in_thread = []
    thread = threading.Thread(target=lambda: in_thread.append(mstx.range_pop()))
    thread.start()
    thread.join()
    assert in_thread == [-1]
    assert (mstx.range_pop(), mstx.range_pop("data"), mstx.range_pop(), mstx.range_pop()) == (1, 0, 0, -1)


def test_functions_and_blocks_are_annotated():
    @mstx.mstx_range("decorated")
    def decorated(value):
        return value + 1

    @annotate()
    def named_after_itself():
        raise KeyError

    def work():
        assert decorated(1) == 2
        with pytest.raises(KeyError):
            named_after_itself()
        with annotate("block", domain="data"), annotate("nested"):
            pass

    assert {"decorated", "named_after_itself", "data: block", "nested"} <= set(names(work))


def test_a_block_ends_its_range(monkeypatch):
    ended = []
    monkeypatch.setattr(mstx, "range_end", lambda number, domain: ended.append((number, domain)))
    monkeypatch.setattr(mstx, "range_start", lambda message, stream, domain: 7)
    with annotate("block", domain="data"):
        assert ended == []
    assert ended == [(7, "data")]


@pytest.mark.parametrize("call, error, words", [
    (lambda: mstx.mark(""), ValueError, "message must be"),
    (lambda: mstx.range_start(None), ValueError, "message must be"),
    (lambda: mstx.range_push("a", domain=""), ValueError, "domain must be"),
    (lambda: mstx.mark("a", stream="a"), TypeError, "stream must be a torch.npu.Stream"),
    (lambda: mstx.range_end("a"), TypeError, "range_id must be"),
])  # fmt: skip
def test_wrong_arguments_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_ranges_of_nvtx_return_their_depth():
    from torch.npu import nvtx

    assert [nvtx.range_push("a"), nvtx.range_push("b"), nvtx.range_pop(), nvtx.range_pop(), nvtx.range_pop()] == [0, 1, 1, 0, -1]


# ---- What is opened and closed, and who is told ----


@pytest.fixture
def log(monkeypatch):
    """Ranges of torch.profiler and calls of a listener, in order."""
    found = []

    class Range:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            found.append(("open", self.name))
            return self

        def __exit__(self, *error):
            found.append(("close", self.name))

    keys = {}
    listener = SimpleNamespace(mark=lambda *given: found.append(("mark", *given)),
                               begin=lambda key, *given: found.append(("begin", keys.setdefault(key, len(keys)), *given)),
                               end=lambda key: found.append(("end", keys.get(key))))
    monkeypatch.setattr(torch.profiler, "record_function", Range)
    monkeypatch.setattr(importlib.import_module("torch_npu.npu.mstx"), "listener", listener)
    return found


def test_a_listener_is_told_of_marks_and_ranges(log):
    mstx.mark("a")
    mstx.mark("b", domain="d")
    assert log == [("open", "a"), ("close", "a"), ("mark", "a", "default"), ("open", "d: b"), ("close", "d: b"), ("mark", "b", "d")]
    log.clear()
    assert mstx.range_push("a", domain="d") == 0 and mstx.range_push("b", domain="d") == 1
    assert mstx.range_pop(domain="d") == 1 and mstx.range_pop(domain="d") == 0 and mstx.range_pop(domain="d") == -1
    assert log == [("open", "d: a"), ("begin", 0, "a", "d"), ("open", "d: b"), ("begin", 1, "b", "d"), ("close", "d: b"), ("end", 1),
                   ("close", "d: a"), ("end", 0)]
    log.clear()
    one, two = mstx.range_start("a"), mstx.range_start("b", domain="d")
    mstx.range_end(one)
    mstx.range_end(two, "d")
    mstx.range_end(one)  # closed already
    assert one != two and log == [("open", "a"), ("begin", 2, "a", "default"), ("open", "d: b"), ("begin", 3, "b", "d"), ("close", "a"),
                                  ("end", 2), ("close", "d: b"), ("end", 3), ("end", 2)]


def test_annotations_may_nest_in_themselves(log):
    block = annotate("a", domain="d")
    with block as given, block:
        assert given is block
    assert [(what, key) for what, key, *_ in log] == [("open", "d: a"), ("begin", 0), ("open", "d: a"), ("begin", 1), ("close", "d: a"),
                                                      ("end", 1), ("close", "d: a"), ("end", 0)]
    log.clear()

    @mstx.mstx_range("b", torch.npu.current_stream(), "e")
    def function(x, y=1):
        """Of its own."""
        return x + y

    assert function(1, y=2) == 3 and function.__doc__ == "Of its own." and log[0] == ("open", "e: b") and log[1][2:] == ("b", "e")
    log.clear()
    annotate()(function)(1)
    assert log[0] == ("open", "function")


@pytest.mark.parametrize("name", ["mark", "range_push", "range_start"])
def test_every_argument_is_looked_at(name):
    for arguments, error, words in (((3,), ValueError, "message must be a text that is not empty, but got 3"),
                                    (("",), ValueError, "message must be a text that is not empty, but got ''"),
                                    (("a", 3), TypeError, "stream must be a torch.npu.Stream or None, but got 3"),
                                    (("a", None, ""), ValueError, "domain must be a text that is not empty, but got ''"),
                                    (("a", None, 3), ValueError, "domain must be a text that is not empty, but got 3")):
        with pytest.raises(error, match=words):
            getattr(mstx, name)(*arguments)
    for call in (lambda: mstx.range_pop(""), lambda: mstx.range_end(1, "")):
        with pytest.raises(ValueError, match="domain must be a text that is not empty"):
            call()
    for wrong in (True, "1", None):
        with pytest.raises(TypeError, match=f"range_id must be what range_start.. returned, but got {wrong!r}"):
            mstx.range_end(wrong)


def test_ranges_of_nvtx_are_opened_and_closed(log):
    first, second = nvtx.range_start("a"), nvtx.range_start("b")
    nvtx.range_end(first)
    nvtx.range_end(first)
    nvtx.range_end(second)
    nvtx.range_end(-5)
    assert second == first + 1 and log == [("open", "a"), ("open", "b"), ("close", "a"), ("close", "b")]
    log.clear()
    nvtx.mark("m")
    with nvtx.range("step {} {n}", 3, n=4):
        log.append("inside")
    assert log == [("open", "m"), ("close", "m"), ("open", "step 3 4"), "inside", ("close", "step 3 4")]
    log.clear()
    assert [nvtx.range_push("a"), nvtx.range_push("b"), nvtx.range_pop(), nvtx.range_pop(), nvtx.range_pop()] == [0, 1, 1, 0, -1]
    assert log == [("open", "a"), ("open", "b"), ("close", "b"), ("close", "a")]
