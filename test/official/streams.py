"""Streams and events."""

import threading

import torch
from rows import each

import torch_npu


def long_work(x, turns=50):
    for _ in range(turns):
        x = x @ x
        x = x / x.norm()
    return x


def check_side_stream_waits_for_the_main_one():
    x = torch.randn(64, 64)
    side = torch.npu.Stream()
    y = long_work(x.npu())
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        z = y + 1
        y.record_stream(side)
    torch.npu.current_stream().wait_stream(side)
    torch.testing.assert_close((z - 1).cpu(), long_work(x), rtol=1e-3, atol=1e-4)


def check_event_orders_two_streams():
    first, second = torch.npu.Stream(), torch.npu.Stream()
    event = torch.npu.Event()
    data = torch.zeros(1000, device="npu")
    torch.npu.synchronize()
    for turn in range(20):
        with torch.npu.stream(first):
            data.fill_(turn)
            event.record()
        with torch.npu.stream(second):
            event.wait()
            seen = data.sum()
        second.synchronize()
        assert seen.item() == 1000 * turn
        first.wait_stream(second)


def check_event_times():
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    x = torch.randn(128, 128, device="npu")
    torch.npu.synchronize()
    start.record()
    long_work(x)
    end.record()
    end.synchronize()
    assert start.query() and end.query()
    assert start.elapsed_time(end) > 0


def check_stream_query_after_synchronize():
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        torch.randn(32, 32, device="npu").sum()
    stream.synchronize()
    assert stream.query()


def check_current_stream():
    default = torch.npu.default_stream()
    assert torch.npu.current_stream() == default
    side = torch.npu.Stream()
    with torch.npu.stream(side):
        assert torch.npu.current_stream() == side
    assert torch.npu.current_stream() == default


def check_threads_have_their_own_work():
    sums = {}

    def work(card):
        torch.npu.set_device(card)
        x = torch.ones(100, device="npu")
        for _ in range(50):
            x = x + card
        sums[card] = x.sum().item()

    threads = [threading.Thread(target=work, args=(card,)) for card in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == {card: 100.0 * (1 + 50 * card) for card in range(3)}


def working_stream(**arguments):
    stream = torch.npu.Stream(**arguments)
    with torch.npu.stream(stream):
        assert torch.ones(8, device="npu").sum().item() == 8
    return stream


KINDS = {
    "plain": {},
    "high priority": {"priority": -1},
    "of a device": {"device": "npu:0"},
    "of an index": {"device": 0},
}


@each(KINDS)
def check_streams_work(arguments):
    stream = working_stream(**arguments)
    assert stream.device == torch.device("npu:0") and stream.npu_stream != torch.npu.default_stream().npu_stream
    assert "npu_stream" in repr(stream)


def check_streams_are_equal_by_what_they_are():
    stream = torch.npu.Stream()
    again = torch.npu.Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)
    assert again == stream and hash(again) == hash(stream) and stream != torch.npu.Stream()


def check_the_pool_of_streams_repeats():
    streams = [torch.npu.Stream() for _ in range(40)]
    assert 8 <= len({stream.npu_stream for stream in streams}) <= 32


def check_an_external_stream_is_the_same_queue():
    stream = torch.npu.Stream()
    external = torch.npu.ExternalStream(stream.npu_stream)
    assert external.npu_stream == stream.npu_stream
    with torch.npu.stream(external):
        x = torch.ones(4, device="npu") * 3
    stream.synchronize()
    assert x.tolist() == [3] * 4


def check_a_stream_that_launches_at_once():
    stream = torch.npu.SyncLaunchStream()
    x = torch.ones(4, device="npu")
    stream.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(stream):
        y = x * 2
    torch.npu.current_stream().wait_stream(stream)
    assert y.tolist() == [2] * 4


def check_set_stream():
    stream = torch.npu.Stream()
    torch.npu.set_stream(stream)
    try:
        assert torch.npu.current_stream() == stream
        assert (torch.ones(3, device="npu") + 1).tolist() == [2] * 3
    finally:
        torch.npu.set_stream(torch.npu.default_stream())


def check_a_stream_of_none_changes_nothing():
    with torch.npu.stream(None):
        assert torch.npu.current_stream() == torch.npu.default_stream()


def check_every_thread_has_its_current_stream():
    side, seen = torch.npu.Stream(), []
    with torch.npu.stream(side):
        thread = threading.Thread(target=lambda: [torch.npu.set_device(0), seen.append(torch.npu.current_stream())])
        thread.start()
        thread.join()
    assert seen == [torch.npu.default_stream()]


def check_a_stream_of_another_card_is_entered_with_its_card():
    stream = torch.npu.Stream(device="npu:1")
    with torch.npu.stream(stream):
        assert torch.npu.current_device() == 1 and torch.npu.current_stream() == stream
    assert torch.npu.current_device() == 0


def check_an_event_that_was_not_recorded_is_done():
    event = torch.npu.Event()
    assert event.query()
    event.synchronize()


EVENTS = {"plain": {}, "timing": {"enable_timing": True}, "blocking": {"blocking": True}}


@each(EVENTS)
def check_events_are_recorded_and_awaited(arguments):
    event, side = torch.npu.Event(**arguments), torch.npu.Stream()
    x = long_work(torch.eye(64).npu(), 1)
    event.record()
    event.wait(side)
    with torch.npu.stream(side):
        total = x.abs().sum()
    side.synchronize()
    assert event.query() and abs(total.item() - 8) < 0.01, total  # an identity divided by its norm


def check_record_event_makes_one():
    stream = torch.npu.Stream()
    event = stream.record_event()
    stream.wait_event(event)
    event.synchronize()
    assert event.query()


def check_times_of_events_without_timing_are_refused():
    first, second = torch.npu.Event(), torch.npu.Event()
    for event in (first, second):
        event.record()
        event.synchronize()
    try:
        first.elapsed_time(second)
    except RuntimeError:
        pass
    else:
        raise AssertionError("a time without enable_timing")


def check_recorded_times_rise():
    events = [torch.npu.Event(enable_timing=True) for _ in range(3)]
    for event in events:
        event.record()
        long_work(torch.eye(32).npu(), 3)
    torch.npu.synchronize()
    times = [event.recorded_time() for event in events]
    assert times == sorted(times) and times[0] > 0


def check_an_event_is_recorded_again():
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    start.record()
    end.record()
    end.synchronize()
    short = start.elapsed_time(end)
    long_work(torch.eye(128).npu(), 100)
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) > short >= 0


def check_torch_event_is_the_clients():
    event = torch.Event("npu")
    event.record()
    event.synchronize()
    assert event.query() and event.device.type == "npu"


def check_torch_stream_is_the_clients():
    stream = torch.Stream("npu:0")
    with stream:
        x = torch.ones(3, device="npu") * 2
    stream.synchronize()
    assert x.tolist() == [2] * 3


def check_an_external_event_opens_a_gate_again_and_again():
    event, side = torch.npu.ExternalEvent(), torch.npu.Stream()
    for turn in range(3):
        x = torch.full((4,), float(turn), device="npu")
        event.record()
        event.wait(side)
        event.reset(side)
        with torch.npu.stream(side):
            y = x + 1
        side.synchronize()
        assert y.tolist() == [turn + 1.0] * 4


def check_memory_of_a_side_stream_is_not_given_away_early():
    side = torch.npu.Stream()
    x = torch.ones(1 << 16, device="npu")
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        y = x
        for _ in range(20):
            y = y * 1.0
    x.record_stream(side)
    del x
    other = torch.zeros(1 << 16, device="npu")
    side.synchronize()
    assert y.sum().item() == 1 << 16 and other.sum().item() == 0


def check_erase_stream_frees_what_record_stream_held():
    x, side = torch.ones(16, device="npu"), torch.npu.Stream()
    x.record_stream(side)
    torch_npu.erase_stream(x, side)
    assert x.tolist() == [1] * 16
