"""What the files of a profile say of the program: host, rank, process groups, moments."""

import hashlib
import os
import socket
import time
from pathlib import Path
from typing import Any

import torch

from torch_npu import npu as _npu


def host_number() -> str:
    """Tells hosts of one name apart, and nothing else about them."""
    try:
        mark = Path("/etc/machine-id").read_bytes()
    except OSError:
        mark = socket.gethostname().encode()
    return str(int.from_bytes(hashlib.sha256(mark).digest()[:7], "big"))


def rank() -> int | None:
    rank = os.environ.get("RANK", "")
    if rank.isdigit():
        return int(rank)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return None


def end() -> dict:
    return {"end_time_ns": time.time_ns(), "end_monotonic_ns": time.monotonic_ns()}


def groups() -> dict:
    """The process groups that have communicated on this card, by the name of their communicator."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return {}
    import torch.distributed as dist

    found = {}
    for group in dist.distributed_c10d._world.pg_map:
        try:
            backend: Any = group._get_backend(torch.device("npu"))
            name = backend.get_hccl_comm_name(_npu.current_device(), init_comm=False)
        except (RuntimeError, AttributeError, TypeError):  # a group of another backend
            continue
        if name:
            ranks = dist.get_process_group_ranks(group)
            found[name] = {"group_name": getattr(group, "group_desc", "") or group.group_name, "group_rank": dist.get_rank(group),
                           "global_ranks": ranks}
    return {"parallel_group_info": found} if found else {}
