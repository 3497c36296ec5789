"""torch.npu.Stream and torch.npu.Event, and that they are torch.Stream and torch.Event."""

import threading
import weakref

import pytest
import torch

two_cards = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two cards")
pytestmark = pytest.mark.usefixtures("restore_device")


def test_default_stream_is_current():
    stream = torch.npu.current_stream()
    assert type(stream) is torch.npu.Stream
    assert isinstance(stream, torch.Stream)
    assert stream == torch.npu.default_stream()
    assert stream.device == torch.device("npu:0")
    assert stream.device_index == 0
    assert stream.npu_stream == stream.native_handle != 0
    assert repr(stream) == f"<torch.npu.Stream device=npu:0 npu_stream={stream.npu_stream:#x}>"
    assert stream._as_parameter_.value == stream.npu_stream


def test_streams_compare_and_hash():
    one, two = torch.npu.Stream(), torch.npu.Stream()
    assert one != two
    assert one == torch.npu.Stream(stream_id=one.stream_id, device_index=one.device_index, device_type=one.device_type)
    assert len({one, two, torch.npu.Stream(stream_id=one.stream_id, device_index=0)}) == 2
    assert one != 5
    assert not (one == None)  # noqa: E711


def test_context_makes_a_stream_current_and_restores():
    stream, before = torch.npu.Stream(), torch.npu.current_stream()
    with torch.npu.stream(stream):
        assert torch.npu.current_stream() == stream
        with torch.npu.stream(None):
            assert torch.npu.current_stream() == stream
    assert torch.npu.current_stream() == before
    with stream:
        assert torch.npu.current_stream() == stream
    assert torch.npu.current_stream() == before
    torch.npu.set_stream(stream)
    torch.npu.set_stream(None)
    assert torch.npu.current_stream() == stream


@two_cards
def test_a_stream_brings_its_card():
    there, before = torch.npu.Stream(1), torch.npu.current_stream(1)
    assert there.device == torch.device("npu:1")
    with torch.npu.stream(there):
        assert torch.npu.current_device() == 1
        assert torch.npu.current_stream() == there
        assert torch.npu.current_stream(0) == torch.npu.default_stream(0)
    assert torch.npu.current_device() == 0
    assert torch.npu.current_stream("npu:1") == before
    torch.npu.set_stream(there)
    assert torch.npu.current_device() == 1


def test_streams_belong_to_the_thread():
    seen = []
    with torch.npu.stream(torch.npu.Stream()):
        thread = threading.Thread(target=lambda: seen.append(torch.npu.current_stream()))
        thread.start()
        thread.join()
    assert seen == [torch.npu.default_stream()]


def test_priority():
    assert torch.npu.default_stream().priority == 0
    low, high = torch.npu.Stream(priority=0), torch.npu.Stream(priority=-1)
    assert low.priority == 0
    assert high.priority < low.priority


def test_external_stream_wraps_a_handle():
    stream = torch.npu.Stream()
    external = torch.npu.ExternalStream(stream.npu_stream, device="npu:0")
    assert isinstance(external, torch.npu.Stream)
    assert external.npu_stream == stream.npu_stream
    with torch.npu.stream(external):
        total = torch.ones(5, device="npu").sum()
    external.synchronize()
    assert total.item() == 5
    assert stream.query()


def test_work_is_ordered_across_streams():
    side = torch.npu.Stream()
    for _ in range(20):
        x = torch.full((1000,), 1.0, device="npu")
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            x.mul_(3)
            done = side.record_event()
        torch.npu.current_stream().wait_event(done)
        x.record_stream(side)
        assert (x + 1).sum().item() == 4000


def test_event_that_was_never_recorded():
    event = torch.npu.Event()
    assert isinstance(event, torch.Event)
    assert event.query()
    assert event.npu_event == 0
    assert repr(event) == "<torch.npu.Event uninitialized>"
    event.synchronize()
    event.wait()
    with pytest.raises(ValueError, match="recorded"):
        event.recorded_time()


def test_event_measures_time():
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    start.record()
    torch.ones(1000, device="npu").cumsum(0)
    end.record(torch.npu.current_stream())
    end.synchronize()
    assert end.query()
    assert 0 <= start.elapsed_time(end) < 60_000
    assert 0 < start.recorded_time() <= end.recorded_time()
    assert start.npu_event != 0
    assert repr(start) == f"<torch.npu.Event {start.npu_event:#x}>"


def test_elapsed_time_refuses_as_upstream_does():
    plain, timed = torch.npu.Event(), torch.npu.Event(enable_timing=True)
    with pytest.raises(ValueError, match="recorded"):
        timed.elapsed_time(torch.npu.Event(enable_timing=True))
    plain.record()
    timed.record()
    torch.npu.synchronize()
    with pytest.raises(ValueError, match="enable_timing=True"):
        timed.elapsed_time(plain)


def test_events_mix_with_generic_ones():
    generic, stream = torch.Event("npu"), torch.Stream("npu")
    event = torch.npu.Event()
    stream.wait_event(event)
    torch.npu.current_stream().record_event(generic)
    torch.npu.current_stream().wait_event(generic)
    torch.npu.current_stream().wait_stream(stream)
    event.record(stream)
    event.synchronize()
    generic.synchronize()
    assert event.query()
    assert generic.query()


@pytest.mark.parametrize("method", ["record", "wait"])
def test_wrong_arguments_are_errors_not_crashes(method):
    event = torch.npu.Event()
    with pytest.raises(TypeError, match="but got: int"):
        getattr(event, method)(5)
    with pytest.raises(TypeError, match="at most one"):
        getattr(event, method)(None, None)
    with pytest.raises(TypeError, match="keyword"):
        getattr(event, method)(streams=None)
    with pytest.raises(TypeError, match="Event"):
        event.elapsed_time("later")
    with pytest.raises(TypeError, match="str"):
        torch.npu.set_stream("npu")
    with pytest.raises(RuntimeError, match="npu:99"):
        torch.npu.current_stream(99)
    with pytest.raises(RuntimeError, match="npu:99"):
        torch.npu.Stream(99)


def test_streams_and_events_take_attributes():
    for thing in (torch.npu.Stream(), torch.npu.current_stream(), torch.npu.Event(), torch.npu.Event(blocking=True)):
        thing.name = "mine"
        assert thing.name == "mine"
        assert weakref.ref(thing)() is thing


def test_the_time_back_to_an_earlier_event_is_negative():
    first, second = (torch.npu.Event(enable_timing=True) for _ in range(2))
    first.record()
    torch.ones(256, 256, device="npu") @ torch.ones(256, 256, device="npu")
    second.record()
    torch.npu.synchronize()
    assert second.elapsed_time(first) == -first.elapsed_time(second) < 0


def test_nothing_is_captured():
    assert not torch.npu.is_current_stream_capturing()


def test_many_events_and_streams_do_not_run_out():
    events = [torch.npu.Event(enable_timing=True) for _ in range(3000)]
    for event in events:
        event.record()
    assert len({torch.npu.Stream() for _ in range(200)}) <= 200
    torch.npu.synchronize()
    assert all(event.query() for event in events)
