"""Whether operators that make the host wait for the card say so: torch.npu.set_sync_debug_mode."""

from __future__ import annotations

from torch_npu import _C

__all__ = ["get_sync_debug_mode", "set_sync_debug_mode"]

_MODES = {"default": 0, "warn": 1, "error": 2}


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """0 or "default": nothing; 1 or "warn": a warning; 2 or "error": an error at every operator that waits.

    Operators that wait copy to or from the host (`item`, `cpu`, `tolist`, not `non_blocking` with pinned memory), or have an output whose
    size depends on data (`nonzero`, a mask as index). Stream.synchronize() is reported too, waiting for a card or an event is not.
    """
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = _MODES[debug_mode]
    if isinstance(debug_mode, bool) or not isinstance(debug_mode, int):
        raise TypeError(f"debug_mode must be an int or a string, but got {type(debug_mode).__name__}")
    if debug_mode not in _MODES.values():
        raise RuntimeError("invalid value of debug_mode, expected one of 0, 1, 2")
    _C.set_sync_debug_mode(debug_mode)


def get_sync_debug_mode() -> int:
    """0, 1 or 2: see set_sync_debug_mode."""
    return _C.get_sync_debug_mode()
