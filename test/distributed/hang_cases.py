"""A rank that comes late to a collective, for `python -m torch_npu.hang`. Runs in the ranks."""

import os
import time

import torch
import torch.distributed as dist


def load_for_ever(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.05)


def reduce_late(path: str, late: int, asynchronous: bool) -> list:
    """All ranks but one call all_reduce; that one waits for the file first."""
    x = torch.ones(4, device="npu")
    dist.all_reduce(x)  # they are connected
    if dist.get_rank() == late:
        load_for_ever(path)
    work = dist.all_reduce(x, async_op=asynchronous)
    if asynchronous:
        work.wait()
    return x.tolist()


def receive_late(path: str) -> list:
    x = torch.full((2,), float(dist.get_rank()), device="npu")
    if dist.get_rank() == 1:
        load_for_ever(path)
        dist.send(x, 0)
    else:
        dist.recv(x, 1)
    return x.tolist()
