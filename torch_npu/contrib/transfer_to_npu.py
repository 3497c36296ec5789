"""Runs a script that was written for CUDA on npu, unchanged.

`from torch_npu.contrib import transfer_to_npu` at the top of the script, or TORCH_TRANSFER_TO_NPU=1 in the environment,
is all it takes. What is redirected stands in torch_npu/contrib/_transfer/table.py; docs/migration.md explains it.
"""

import multiprocessing
import os
import sys
from collections.abc import Iterable

from torch_npu.contrib._transfer import patches
from torch_npu.contrib._transfer.report import Report, Row

__all__ = ["Report", "Row", "apply", "is_active", "report", "undo"]

EXCLUDE = "TORCH_NPU_TRANSFER_EXCLUDE"


def apply(exclude: Iterable[str] = ()) -> None:
    """Redirects CUDA to npu. Does nothing when that has been done already.

    `exclude` (and the environment variable TORCH_NPU_TRANSFER_EXCLUDE, separated by commas) names what shall stay as it
    is: a torch name with everything below it ("torch.profiler", "torch.Tensor.is_cuda"), or the name of a package whose
    calls of torch.cuda.is_available() shall be told the truth, which is that there is no CUDA.
    """
    if patches.is_active():
        return
    patches.apply([*exclude, *filter(None, map(str.strip, os.environ.get(EXCLUDE, "").split(",")))])
    # A spawned process knows its name, and not yet its parent, when it imports the script.
    if os.environ.get("RANK", "0") == "0" and multiprocessing.current_process().name == "MainProcess":
        count = len(report().rows)
        print(
            f"transfer_to_npu: torch.cuda, 'cuda' and 'nccl' mean npu and hccl from here on ({count} names redirected; "
            "transfer_to_npu.report() lists them, transfer_to_npu.undo() restores them)",
            file=sys.stderr,
        )


def undo() -> None:
    """Puts everything back as it was. apply() redirects again."""
    patches.undo()


def is_active() -> bool:
    """Whether CUDA is redirected to npu."""
    return patches.is_active()


def report() -> Report:
    """What is redirected, and how often each redirection has been used so far. print() shows a table."""
    return patches.report()


apply()
