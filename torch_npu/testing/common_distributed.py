"""Tests on several cards: skipping where there are fewer, and groups for classes with `world_size`, `rank` and `file_name`."""

from __future__ import annotations

import functools
import unittest
from collections import namedtuple

import torch

from torch_npu import npu

TestSkip = namedtuple("TestSkip", "exit_code, message")
TEST_SKIPS = {
    "multi-npu": TestSkip(75, "several npu cards are needed"),
    **{f"multi-npu-{count}": TestSkip(75, f"{count} npu cards are needed") for count in range(1, 9)},
    "hccl": TestSkip(76, "torch.distributed has no backend hccl"),
    "known_issues": TestSkip(77, "known to fail"),
}


def skipIfUnsupportMultiNPU(npu_number_needed):
    """Skips a test where fewer cards are seen."""

    def decorate(func):
        @functools.wraps(func)
        def run(*args, **kwargs):
            if npu.device_count() < npu_number_needed:
                raise unittest.SkipTest(f"{npu_number_needed} npu cards are needed; there are {npu.device_count()}")
            return func(*args, **kwargs)

        return run

    return decorate


def with_comms(func):
    """Runs a test in a process group of self.world_size ranks: hccl, or gloo where there are not so many cards."""
    if func is None:
        raise RuntimeError("with_comms decorates a test, but got None")

    @functools.wraps(func)
    def run(self, *args, **kwargs):
        backend = "hccl" if npu.device_count() >= self.world_size else "gloo"
        init_pg(backend, self.world_size, self.rank, self.file_name)
        torch.manual_seed(0)
        func(self, *args, **kwargs)
        self.destroy_pg()

    return run


def init_pg(backend: str = "hccl", world_size=1, rank=0, file_name="file://") -> None:
    """Joins the default process group through a file; with hccl, the card `rank` is made current."""
    if backend not in ("hccl", "gloo"):
        raise RuntimeError(f'backend must be "hccl" or "gloo", got {backend!r}')
    if backend == "hccl":
        if npu.device_count() < world_size:
            raise RuntimeError(f"{world_size} npu cards are needed; there are {npu.device_count()}")
        npu.set_device(rank)
    store = f"file://{file_name.removeprefix('file://')}"
    torch.distributed.init_process_group(backend, init_method=store, world_size=world_size, rank=rank)
