"""What debugging needs from the start: whose code is not the user's, and a dump if the environment asks for one."""

import os

import torch

from torch_npu import _C


def start(folder: str) -> None:
    """Called by `import torch_npu` with the folder of the package."""
    _C.set_library_folders([os.path.dirname(torch.__file__) + os.sep, os.path.realpath(folder) + os.sep, folder + os.sep])
    if os.environ.get("ACL_DUMP_DATA") or os.environ.get("TORCH_NPU_DUMP"):
        from torch_npu.npu import _dump

        _dump.start_if_wanted()
