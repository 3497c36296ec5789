"""Streams and events."""

import threading

import torch

import torch_npu  # noqa: F401


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
