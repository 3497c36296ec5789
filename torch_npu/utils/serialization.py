"""Checkpoints written in the background and all or nothing: a file that exists is complete."""

import atexit
import os
import pickle
import threading
import warnings
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

__all__ = ["load", "save", "save_async"]

load = torch.load
save = torch.save

_running: list[threading.Thread] = []


def save_async(
    obj: object,
    f,
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
    model: torch.nn.Module | None = None,
) -> threading.Thread:
    """torch.save in a thread of its own. The npu's tensors are copied to the host first, so training may go on at once.

    A path is written beside its place and then renamed: if the disk is full, the old file stays as it was. The thread is
    returned for who wants to wait; the program waits for it at its end. `model` is accepted for compatibility.
    """
    snapshot = tree_map_only(torch.Tensor, lambda t: t.detach().to("cpu", copy=True), obj)
    options = (pickle_module, pickle_protocol, _use_new_zipfile_serialization, _disable_byteorder_record)
    thread = threading.Thread(target=_write, args=(snapshot, f, options), name="torch_npu.save_async")
    thread.start()
    _running[:] = [other for other in _running if other.is_alive()] + [thread]
    return thread


def _write(snapshot, f, options) -> None:
    if not isinstance(f, (str, os.PathLike)):
        torch.save(snapshot, f, *options)
        return
    temporary = f"{os.fspath(f)}.{os.getpid()}.part"
    try:
        torch.save(snapshot, temporary, *options)
        os.replace(temporary, f)
    except Exception as error:
        if os.path.exists(temporary):
            os.unlink(temporary)
        warnings.warn(f"the checkpoint {os.fspath(f)} was not written: {error}", RuntimeWarning, stacklevel=1)


@atexit.register
def _finish() -> None:
    for thread in _running:
        thread.join()
