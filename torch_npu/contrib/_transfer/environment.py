"""Environment variables of CUDA, said for npu: read until the npu is used for the first time, as scripts set them by themselves.

What the npu's own variable says, counts; undo() removes what was set here.
"""

import os
import re

from torch_npu import _C

_NAMES = {
    "CUDA_VISIBLE_DEVICES": "ASCEND_RT_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING": "ASCEND_LAUNCH_BLOCKING",
    "PYTORCH_CUDA_ALLOC_CONF": "PYTORCH_NPU_ALLOC_CONF",
}
_set: dict[str, str] = {}  # variable -> what it was set to here
_settled = True


def apply() -> None:
    global _settled
    _settled = False
    before_use()


def undo() -> None:
    global _settled
    _settled = True
    for name, value in _set.items():
        if os.environ.get(name) == value:
            del os.environ[name]
    _set.clear()


def before_use() -> None:
    """Called before a redirected call reaches the npu."""
    global _settled
    _settled = _settled or _C.is_initialized()
    if _settled:
        return
    for cuda, npu in _NAMES.items():
        value = os.environ.get(cuda)
        if value is None or (npu in os.environ and os.environ[npu] != _set.get(npu)):
            continue
        if npu == "PYTORCH_NPU_ALLOC_CONF" and "PYTORCH_ALLOC_CONF" in os.environ:
            continue
        os.environ[npu] = _set[npu] = _on_npu(cuda, value)


def _on_npu(name: str, value: str) -> str:
    if name == "CUDA_VISIBLE_DEVICES" and re.search("[A-Za-z]", value):
        raise ValueError(
            f"CUDA_VISIBLE_DEVICES={value} names GPUs by UUID, which no npu has; set ASCEND_RT_VISIBLE_DEVICES to the numbers of the cards"
        )
    if name == "PYTORCH_CUDA_ALLOC_CONF" and "backend:" in value:
        raise ValueError(f"PYTORCH_CUDA_ALLOC_CONF={value} chooses one of CUDA's allocators, and npu has one; remove its key backend")
    return value
