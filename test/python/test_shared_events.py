"""Events between processes: torch.npu.Event(interprocess=True), handles, and events that torch.multiprocessing sends."""

import pickle
from multiprocessing.reduction import ForkingPickler

import pytest
import torch

import torch_npu  # noqa: F401

PROGRAM = """
import ctypes, os, signal, sys, threading
import torch, torch_npu
import torch.multiprocessing as mp

library = ctypes.CDLL(os.path.join(os.path.dirname(torch_npu.__file__), "softnpu/lib64/libascendcl.so"))
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

class Gate:  # holds up a stream until open() is called
    def __init__(self, stream):
        self.opened = threading.Event()
        self.callback = CALLBACK(lambda _: self.opened.wait(60) and None)
        assert library.aclrtLaunchHostFunc(ctypes.c_void_p(stream.npu_stream), self.callback, None) == 0
    def open(self):
        self.opened.set()

def wait(given, back):
    event, tensor = given.get()
    stream = torch.npu.Stream()
    event.wait(stream)
    with torch.npu.stream(stream):
        seen = tensor.clone()
    back.put((event.query(), stream.query()))  # both False: the sender's stream is held up
    stream.synchronize()
    back.put((event.query(), seen.tolist()))
    del tensor, seen

def record(given, back):
    event = given.get()
    stream = torch.npu.Stream()
    gate = Gate(stream)
    event.record(stream)
    back.put("recorded")
    order = given.get()
    if order == "end":
        os.kill(os.getpid(), signal.SIGKILL)
    gate.open()
    given.get()

if __name__ == "__main__":
    task = sys.argv[1]
    context = mp.get_context("spawn")
    given, back = context.SimpleQueue(), context.SimpleQueue()
    child = context.Process(target={"waits": wait, "records": record, "ends": record}[task], args=(given, back), daemon=True)
    child.start()
    event = torch.npu.Event(interprocess=True)
    if task == "waits":
        tensor = torch.zeros(2, device="npu")
        torch.npu.synchronize()
        stream = torch.npu.Stream()  # not the current one, for which sending a tensor waits
        gate = Gate(stream)
        with torch.npu.stream(stream):
            tensor.add_(3)
        event.record(stream)
        given.put((event, tensor))
        print(back.get())
        gate.open()
        print(back.get())
    else:
        given.put(event)
        assert back.get() == "recorded"
        print(event.query())
        stream = torch.npu.Stream()
        event.wait(stream)
        given.put("end" if task == "ends" else "open")
        try:
            stream.synchronize()
            event.synchronize()
            print(event.query())
        except RuntimeError as e:
            print("ended before" in str(e))
        given.put(None)
    child.join()
    print(child.exitcode)
"""


@pytest.mark.parametrize("variables", [{}, {"TASK_QUEUE_ENABLE": "2"}, {"SOFTNPU_ASYNC": "1", "SOFTNPU_STRICT": "1"}], ids=str)
@pytest.mark.parametrize("task, output", [
    ("waits", "(False, False)\n(True, [3.0, 3.0])\n0\n"),
    ("records", "False\nTrue\n0\n"),
    ("ends", "False\nTrue\n-9\n"),
])  # fmt: skip
def test_a_stream_waits_for_a_record_of_another_process(run, tmp_path, task, output, variables):
    (tmp_path / "events.py").write_text(PROGRAM)
    process = run(f"import runpy, sys; sys.argv = ['events.py', '{task}']; runpy.run_path('events.py', run_name='__main__')", **variables)
    assert process.returncode == 0, process.stderr
    assert process.stdout == output


def test_a_handle_gives_the_same_event():
    event = torch.npu.Event(interprocess=True)
    assert event.query()  # never recorded, and nobody else can have
    handle = event.ipc_handle()
    assert isinstance(handle, bytes) and len(handle) == 64 and event.ipc_handle() == handle
    twin = torch.npu.Event.from_ipc_handle(event.device, handle)
    assert type(twin) is torch.npu.Event and twin.device == event.device == torch.device("npu", torch.npu.current_device())
    assert not twin.query()  # until the first record
    twin.synchronize()
    event.record()
    twin.synchronize()
    assert twin.query() and event.query()
    twin.record()
    event.wait()
    event.synchronize()
    sent = pickle.loads(ForkingPickler.dumps(event))
    assert sent.query() and sent.npu_event not in (event.npu_event, 0)


def test_a_recorded_event_gives_its_handle_and_goes_on():
    for device in (torch.device("npu", 1), "npu:1", 1):
        with torch.npu.device(1):
            event = torch.npu.Event(interprocess=True)
            event.record()
        twin = torch.npu.Event.from_ipc_handle(device, event.ipc_handle())
        assert twin.device.index == 1
        twin.synchronize()
        event.record(torch.npu.current_stream(1))


@pytest.mark.parametrize("arguments, error, words", [
    (("npu", b"short"), ValueError, "handle must be the 64 bytes that Event.ipc_handle\\(\\) gives, but has 5"),
    (("npu", b"x" * 64), RuntimeError, "handle is not one that aclrtIpcGetEventHandle gives"),
    (("npu", b"softnpu-event-0000000000000000".ljust(64, b"\0")), RuntimeError, "no process of this user shares anything under this key"),
    (("cpu", b"x" * 64), ValueError, "Expected a npu device, but got: cpu"),
    (("npu", "x" * 64), TypeError, "bytes"),
    (("npu",), TypeError, "handle"),
])  # fmt: skip
def test_bad_handles_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        torch.npu.Event.from_ipc_handle(*arguments)


def test_events_that_cannot_be_shared_say_so():
    with pytest.raises(ValueError, match="interprocess=True"):
        torch.npu.Event().ipc_handle()
    recorded = torch.npu.Event()
    recorded.record()
    with pytest.raises(ValueError, match="interprocess=True"):
        recorded.ipc_handle()
    with pytest.raises(ValueError, match="interprocess=True"):
        ForkingPickler.dumps(recorded)
    with pytest.raises(ValueError, match="enable_timing"):
        torch.npu.Event(enable_timing=True, interprocess=True)
    event = torch.npu.Event(interprocess=True)
    opened = torch.npu.Event.from_ipc_handle("npu", event.ipc_handle())
    with pytest.raises(RuntimeError, match="another process's"):
        opened.ipc_handle()
