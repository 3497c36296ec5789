"""How torch.multiprocessing sends npu tensors: the receiver maps the sender's memory, as with CUDA tensors.

The sender keeps the memory until the receiver has freed its tensor (or has ended), and must run until the tensor was received. What
cannot be mapped is copied, with a warning once: memory of expandable segments or of another allocator, private formats, tensors that were
received themselves. Sparse and nested tensors are copied.
"""

from __future__ import annotations

import os
import warnings
import weakref

import torch
from torch.multiprocessing.reductions import reduce_tensor as _upstream_reduce

from torch_npu import _C

__all__ = ["rebuild_npu_event", "rebuild_npu_tensor"]

_sent: weakref.WeakValueDictionary[tuple[str, int], torch.UntypedStorage] = weakref.WeakValueDictionary()  # for readers in this process
_warned = False


def reduce_tensor(tensor: torch.Tensor):
    """For ForkingPickler: (function, arguments) that make the tensor in another process."""
    if tensor.device.type != "npu" or (tensor.requires_grad and not tensor.is_leaf):  # upstream refuses the latter
        return _upstream_reduce(tensor)
    plain = tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested
    if not plain or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return _copied(tensor)
    torch.utils.hooks.warn_if_has_hooks(tensor)
    storage = tensor.untyped_storage()
    handle = segment_bytes = offset = ledger = cell = None
    if storage.nbytes():
        sent = _C.send_storage(storage)
        if sent is None:
            _warn_of_copy()
            return _copied(tensor)
        key, segment_bytes, offset, ledger, cell, message = sent
        handle = b"%s|%d|%d" % (key, segment_bytes, message)
        _sent[ledger, cell] = storage
    # The order is the official one: programs change the device, the seventh, before they rebuild.
    return rebuild_npu_tensor, (
        type(tensor), tensor.size(), tensor.stride(), tensor.storage_offset(), torch.UntypedStorage, tensor.dtype, tensor.device.index,
        handle, storage.nbytes(), offset, tensor.requires_grad, ledger, cell, None, False,
    )


def _warn_of_copy() -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "npu tensors of this memory are copied to other processes, not shared: it is not a plain segment of the caching allocator "
            "(expandable segments, another allocator, a private format, or received from a third process)", stacklevel=4)


def _copied(tensor: torch.Tensor):
    """Refusing is no way: a queue pickles on a thread of its own, where an error loses the tensor and its reader waits for ever."""
    return _rebuild_copy, (type(tensor), tensor.detach().cpu(), tensor.device, tensor.requires_grad)


def _rebuild_copy(cls: type, host: torch.Tensor, device: torch.device, requires_grad: bool) -> torch.Tensor:
    tensor = host.to(device)
    if issubclass(cls, torch.nn.Parameter):
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_() if requires_grad else tensor


def rebuild_npu_tensor(
    tensor_cls, tensor_size, tensor_stride, tensor_offset, storage_cls, dtype, storage_device, storage_handle, storage_size_bytes,
    storage_offset_bytes, requires_grad, ref_counter_handle, ref_counter_offset, event_handle, event_sync_required,
):
    """The tensor that reduce_tensor() took apart.

    A process may do so again: it gets the storage that it has, or maps it anew as long as the sender's program keeps the tensor. Two
    processes cannot have the same message at a time: the sender counts one receiver for each.

    storage_cls is the official argument; the storage is torch.UntypedStorage.
    """
    if event_handle is not None or event_sync_required:
        raise ValueError("event_handle and event_sync_required come from another plugin: the sender here has waited for its stream")
    device = torch.device("npu", storage_device) if isinstance(storage_device, int) else torch.device(storage_device)
    if storage_handle is None:
        storage = torch.UntypedStorage(0, device=device)
    else:
        storage = _storage(device, storage_handle, storage_size_bytes, storage_offset_bytes, ref_counter_handle, ref_counter_offset)
    typed = torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)
    tensor = torch._utils._rebuild_tensor(typed, tensor_offset, tensor_size, tensor_stride)
    if tensor_cls is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)
    tensor.requires_grad = requires_grad
    return tensor


def _storage(device: torch.device, handle: bytes, size: int, offset: int, ledger: str, cell: int) -> torch.UntypedStorage:
    key, *numbers = handle.split(b"|") if isinstance(handle, bytes) else (b"",)
    if len(numbers) != 2 or not all(number.isdigit() for number in numbers):
        raise ValueError("storage_handle is not one that torch_npu.multiprocessing.reductions makes")
    segment_bytes, message = map(int, numbers)
    if (local := _sent.get((ledger, cell))) is not None and f"-{os.getpid()}-" in ledger and local.device == device:
        _C.decline_storage(ledger, cell, message)  # the sender reads its own message
        return local
    index = device.index if device.index is not None else torch.npu.current_device()
    return _C.receive_storage(key, segment_bytes, offset, ledger, cell, message, size, index)


def end() -> None:
    """At exit: other processes lose what they hold of a card's memory, which softnpu alone keeps for them."""
    if (held := _C.end_sharing()) and not _C.is_softnpu():
        warnings.warn(f"this process ends while others hold {held} of its npu tensors, whose memory ends with it", stacklevel=1)


def reduce_event(event):
    """For ForkingPickler: an event that was made with interprocess=True."""
    handle = event.ipc_handle()  # binds the event to a card
    return rebuild_npu_event, (event.device, handle)


def rebuild_npu_event(device, handle):
    """The event of another process."""
    return torch.npu.Event.from_ipc_handle(device, handle)
