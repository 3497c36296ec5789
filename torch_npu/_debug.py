"""What debugging needs from the start: whose code is not the user's, and what the environment asks for."""

import os
import re

import torch

from torch_npu import _C, _inspection


def start(folder: str) -> None:
    """Called by `import torch_npu` with the folder of the package."""
    _C.set_library_folders([os.path.dirname(torch.__file__) + os.sep, os.path.realpath(folder) + os.sep, folder + os.sep])
    _C.inspect_stacks_with(_inspection.stacks)
    if _is_on("TORCH_NPU_ERROR_ORIGIN"):
        _C.keep_origins(True)
    if _is_on("TORCH_NPU_SANITIZER"):
        from torch_npu.npu import _sanitizer

        _sanitizer.enable_npu_sanitizer()
    if _is_on("ACL_DUMP_DATA"):
        from torch_npu.npu import _dump

        _dump.init_dump()


def _is_on(variable: str) -> bool:
    """As CANN reads flags: any number but zero."""
    return re.fullmatch(r"\s*[+-]?0*[1-9]\d*\s*", os.environ.get(variable, "")) is not None
