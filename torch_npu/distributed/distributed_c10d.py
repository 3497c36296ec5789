"""State and repair of the backend "hccl"."""

import contextlib

import torch.distributed as dist

from torch_npu import _C, npu
from torch_npu.distributed.backend import hccl_backend

__all__ = ["is_hccl_available", "reinit_process_group"]


def is_hccl_available() -> bool:
    """Whether the backend "hccl" can be used: a provider (CANN or softnpu) is there. Touches no card."""
    return dist.is_available() and _C.is_available()


def reinit_process_group(group=None, rebuild_link: bool = True) -> None:
    """Makes a group usable again after a failure, in the same processes. All ranks of the group call it.

    With rebuild_link the communicators are thrown away, and the next collective makes new ones. Without it they are kept.
    """
    backend = hccl_backend(group)
    if not hasattr(backend, "rebuild"):
        raise RuntimeError("A group between hosts on softnpu cannot be rebuilt: let the processes end and start them anew, with torchrun")
    if not rebuild_link:
        if backend.failure() is not None:
            raise RuntimeError("softnpu cannot resume communicators: call reinit_process_group(group, rebuild_link=True)")
        return
    with contextlib.suppress(RuntimeError):  # the failure that led here, if nobody has collected it
        npu.synchronize()
    backend.rebuild()
