"""DLPack: torch.utils.dlpack serves npu tensors; from_dlpack() here also tells the producer the stream that will read."""

from typing import Any

import torch
from torch.utils import dlpack as upstream
from torch.utils.dlpack import to_dlpack as to_dlpack

from torch_npu import npu

__all__ = ["from_dlpack", "to_dlpack"]


class _OnStream:
    """A producer that is asked for its memory with a stream, as upstream asks those of CUDA."""

    def __init__(self, producer: Any, stream: int) -> None:
        self._producer, self._stream = producer, stream

    def __dlpack_device__(self):
        return self._producer.__dlpack_device__()

    def __dlpack__(self, **options):
        return self._producer.__dlpack__(stream=self._stream, **options)


def from_dlpack(ext_tensor: Any, *, device: torch.types.Device = None, copy: bool | None = None) -> torch.Tensor:
    """torch.from_dlpack, for which the current stream waits: the producer orders its work before what this stream is given next."""
    if hasattr(ext_tensor, "__dlpack__"):
        kind, index = ext_tensor.__dlpack_device__()
        if kind == upstream.DLDeviceType.kDLExtDev:
            ext_tensor = _OnStream(ext_tensor, npu.current_stream(index).npu_stream)
    return upstream.from_dlpack(ext_tensor, device=device, copy=copy)
