"""The npu device for PyTorch: `torch.npu`, `device="npu"`, on CANN or on the embedded software NPU.

`import torch` loads this package by itself (entry point `torch.backends`); `import torch_npu` does the same.
"""

import sys as _sys

__version__ = "2.13.0+oss"


def _autoload() -> None:
    """Called by `import torch` once it has imported this package, which has done all the work.

    Defined before anything else: when the user imports torch_npu first, torch asks for it halfway through this file.
    """


def _torch_is_importing_us() -> bool:
    torch = _sys.modules.get("torch")
    return torch is not None and getattr(torch.__spec__, "_initializing", False)


_autoloading = _torch_is_importing_us()

import torch as _torch  # noqa: E402, F401  (torch first: the extension links its libraries)

from torch_npu import _startup  # noqa: E402
from torch_npu._absent import REASONS as _REASONS  # noqa: E402
from torch_npu._dtypes import NUMBERS as _NUMBERS  # noqa: E402

_startup.start(__path__, __version__, autoloading=_autoloading)


def is_softnpu() -> bool:
    """Whether the npu is the embedded software NPU (as opposed to CANN). Loads the runtime, touches no card."""
    from torch_npu import _C

    return _C.is_softnpu()


_SUBPACKAGES = ("_afd", "asd", "atb", "contrib", "distributed", "dynamo", "jit", "migrate", "multiprocessing", "op_plugin", "optim",
                "profiler", "testing", "utils", "version")
_NAMES = ("Format", "HiFloat8Tensor", "ParallelStore", "_apply_patches", "erase_stream", "matmul_checksum",
          "unsupported_dtype")  # of __getattr__


def __getattr__(name: str):
    """Subpackages that cost import time are loaded when they are first used; npu_* and the like are custom operators."""
    if name in _SUBPACKAGES:
        from importlib import import_module

        return import_module(f"torch_npu.{name}")
    if name == "Format":
        from torch_npu.npu._format import Format

        return Format
    if name == "unsupported_dtype":  # of the official plugin: types that have no .npu() of their storage
        return [_torch.quint8, _torch.quint4x2, _torch.quint2x4, _torch.qint32, _torch.qint8]
    if name in _NUMBERS:
        return _NUMBERS[name]
    if name == "HiFloat8Tensor":
        from torch_npu.utils.hif8_tensor import _HiFloat8Tensor

        return _HiFloat8Tensor
    if name == "ParallelStore":
        from torch_npu.distributed.rendezvous import ParallelStore

        return ParallelStore
    if name == "_apply_patches":
        from torch_npu.contrib._named_patches import apply_patches

        return apply_patches
    if name == "erase_stream":
        from torch_npu.npu.memory import erase_stream

        return erase_stream
    if name == "matmul_checksum":
        from torch_npu.asd.checksum import matmul_checksum

        return matmul_checksum
    from torch_npu import custom_ops

    if name in _REASONS:
        raise AttributeError(f"torch_npu.{name} is not supported: {_REASONS[name]}")
    if name in custom_ops.NAMES:
        globals()[name] = function = custom_ops.function(name)
        return function
    if name in custom_ops.ATB_NAMES and name.startswith("_"):
        return getattr(_torch.ops.atb, name)
    if name in custom_ops.REFUSED:  # an AttributeError, so that hasattr is truthful
        raise AttributeError(f"torch_npu.{name} is not supported: {custom_ops.REFUSED[name]}; docs/custom_ops.md lists what is")
    raise AttributeError(f"module 'torch_npu' has no attribute '{name}'")


def __dir__() -> list[str]:
    """What is loaded and what would be when it is asked for."""
    from torch_npu import custom_ops

    return sorted({*globals(), *_SUBPACKAGES, *_NAMES, *_NUMBERS, *custom_ops.NAMES})
