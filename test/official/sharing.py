"""Events between processes."""

import multiprocessing

import torch

import torch_npu  # noqa: F401


def record_event(handle, pipe):
    event = torch.npu.Event.from_ipc_handle(torch.device("npu", 0), handle)
    event.record()
    event.synchronize()
    pipe.send(event.query())


def check_an_event_goes_to_another_process():
    torch.npu.set_device(0)
    event = torch.npu.Event(interprocess=True)
    event.record()
    handle = event.ipc_handle()
    assert isinstance(handle, bytes) and len(handle) == 64, handle
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=record_event, args=(handle, theirs))
    child.start()
    assert ours.poll(120) and ours.recv() is True
    child.join()
    stream = torch.npu.Stream()
    event.wait(stream)
    stream.synchronize()
    event.synchronize()
    assert event.query()
