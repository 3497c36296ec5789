"""Asynchrony with SOFTNPU_ASYNC=1: launches return at once, waiting waits, errors arrive at the next wait."""

import pytest

# A product of matrices that takes at least 200 ms: `size` is found by measuring, so that the test holds on any machine.
SLOW = """
import time
def timed(work):
    start = time.perf_counter(); work(); return time.perf_counter() - start
size = 512
while True:
    a = torch.rand(size, size, dtype=torch.float64).npu()
    out = torch.empty_like(a)
    def slow(): torch.mm(a, a, out=out)
    slow(); torch.npu.synchronize()
    if timed(lambda: (slow(), torch.npu.synchronize())) > 0.25: break
    size = size * 5 // 4
small = torch.ones(16, device="npu"); small + small; torch.npu.synchronize()
"""


@pytest.fixture
def softnpu(check):
    def run(code, dtype="float64", **environment):
        return check(SLOW.replace("float64", dtype) + code, **{"TORCH_NPU_RUNTIME": "soft", "SOFTNPU_ASYNC": "1", **environment})

    return run


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_a_launch_behind_a_long_kernel_returns_at_once(softnpu, level):
    code = """
launch = timed(lambda: (slow(), small + small))
wait = timed(torch.npu.synchronize)
assert launch < wait / 2, (launch, wait)
"""
    softnpu(code, TASK_QUEUE_ENABLE=level)


def test_launch_blocking_does_not_return_early(softnpu):
    code = """
launch, wait = timed(slow), timed(torch.npu.synchronize)
assert launch > 2 * wait, (launch, wait)
"""
    softnpu(code, ASCEND_LAUNCH_BLOCKING="1")


def test_queries_see_the_work_and_event_times_agree(softnpu):
    code = """
start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
began = time.perf_counter()
start.record(); slow(); end.record()
assert not end.query() and not torch.npu.current_stream().query()
end.synchronize()
took = (time.perf_counter() - began) * 1000
assert end.query() and torch.npu.current_stream().query()
assert took * 0.7 < start.elapsed_time(end) <= took * 1.05, (start.elapsed_time(end), took)
"""
    softnpu(code)


def test_elapsed_time_of_unfinished_events_is_refused(softnpu):
    code = """
start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
start.record(); slow(); end.record()
try:
    start.elapsed_time(end)
except RuntimeError as error:
    assert "completed" in str(error)
else:
    raise SystemExit("no error")
"""
    softnpu(code)


def test_other_threads_run_while_one_waits(softnpu):
    code = """
import threading
ticks = []
stop = threading.Event()
def tick():
    while not stop.is_set(): ticks.append(time.perf_counter()); time.sleep(0.01)
thread = threading.Thread(target=tick); thread.start()
slow(); torch.npu.synchronize(); slow(); torch.npu.current_stream().synchronize(); slow(); out[0, 0].item()
stop.set(); thread.join()
assert len(ticks) > 20, len(ticks)
"""
    softnpu(code)


def test_streams_run_side_by_side_and_wait_for_each_other(softnpu):
    code = """
side = torch.npu.Stream()
slow()
with torch.npu.stream(side):
    quick = small + 1
    side.synchronize()
assert not torch.npu.default_stream().query()
side.wait_stream(torch.npu.default_stream())
with torch.npu.stream(side):
    late = small + 2
assert not side.query()
side.synchronize()
assert torch.npu.default_stream().query()
assert quick[0].item() == 2 and late[0].item() == 3
"""
    softnpu(code)


def test_memory_in_use_by_another_stream_is_not_given_away(softnpu):
    code = """
side = torch.npu.Stream()
for _ in range(3):
    x = torch.full((1 << 20,), 3.0, device="npu")
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        slow(); y = x * 2
    x.record_stream(side)
    del x
    z = torch.zeros(1 << 20, device="npu")
    torch.npu.current_stream().wait_stream(side)
    assert y.sum().item() == 6 * (1 << 20)
"""
    softnpu(code)


def test_a_failing_task_is_raised_at_the_next_wait_and_the_next_operator_works(check):
    code = """
x = torch.arange(5, device="npu")
bad = torch.tensor([99], device="npu")
try:
    y = x[bad]
    torch.npu.synchronize()
except (RuntimeError, IndexError) as error:
    print(str(error).splitlines()[0])
else:
    raise SystemExit("no error")
torch.npu.synchronize()
assert (x + 1).tolist() == [1, 2, 3, 4, 5]
"""
    for level in ("0", "1", "2"):
        message = check(code, TORCH_NPU_RUNTIME="soft", SOFTNPU_ASYNC="1", TASK_QUEUE_ENABLE=level)
        assert "99" in message
        assert "out of" in message


@pytest.mark.parametrize("direction", ["to the card", "to the host"])
def test_a_copy_beside_a_kernel_overlaps_it_in_event_times(softnpu, direction):
    code = f"""
side, compute = torch.npu.Stream(), torch.npu.Stream()
host, card = torch.ones(1 << 20).pin_memory(), torch.zeros(1 << 20, device="npu")
source, target = (host, card) if {direction == "to the card"} else (card, host)
target.copy_(source, non_blocking=True); torch.npu.synchronize()
def interval(stream, work):
    events = [torch.npu.Event(enable_timing=True) for _ in range(2)]
    with torch.npu.stream(stream):
        events[0].record(); work(); events[1].record()
    return events
def times(copying):
    origin = torch.npu.Event(enable_timing=True); origin.record()
    kernel = interval(compute, lambda: [slow() for _ in range(4)])
    copy = interval(copying, lambda: target.copy_(source, non_blocking=True))
    torch.npu.synchronize()
    return [[origin.elapsed_time(e) for e in events] for events in (kernel, copy)]
(began, ended), (copy_began, copy_ended) = times(side)
assert copy_began < ended and copy_ended < ended and copy_ended > began, (began, ended, copy_began, copy_ended)
(began, ended), (copy_began, copy_ended) = times(compute)  # one stream: one after the other
assert copy_began >= ended, (began, ended, copy_began, copy_ended)
"""
    softnpu(code)


def test_a_workspace_that_grows_does_not_take_memory_from_queued_work(softnpu):
    code = """
many = list(torch.ones(20000, device="npu").unbind())  # softnpu asks for 64 bytes for each
torch._foreach_add_(many, 1.0)  # types that passed once go through the queue as they are
torch.npu.synchronize()
slow()
first = small + small
torch._foreach_add_(many, 1.0)
torch.npu.synchronize()
assert first.tolist() == [2] * 16 and many[7].item() == 3
"""
    # Strict: to free memory that a queued task uses is an error; float64 is refused.
    softnpu(code, dtype="float32", TASK_QUEUE_ENABLE="2", SOFTNPU_WORKSPACE="all", SOFTNPU_STRICT="1")
