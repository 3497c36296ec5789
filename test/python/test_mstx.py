"""torch.npu.mstx: ranges and marks that torch.profiler shows."""

import inspect
import threading

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

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
