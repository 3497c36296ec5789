"""torchvision's own operators (torch.ops.torchvision.*) for npu tensors, registered once torchvision has loaded its extension.

Nothing of torchvision is imported here: a finder waits for the name `torchvision.extension` and leaves when it has been found.

The wheel on PyPI is built for CUDA. Where torch has no CUDA libraries its extension cannot be loaded, and importing torchvision
fails at the first operator that does not exist. Then the operators are defined here, for the CPU as well, and torchvision is told
that they exist; the kernels are compositions of ATen operators (kernels.py).
"""

import importlib.abc
import importlib.util
import sys

import torch

from torch_npu._torchvision.schemas import SCHEMAS

_EXTENSION = "torchvision.extension"
_libraries: list = []


def register() -> None:
    """Called once, when torch_npu is imported; torchvision may have been imported before."""
    if _EXTENSION in sys.modules:
        _add(sys.modules[_EXTENSION])
    else:
        sys.meta_path.insert(0, _AfterExtension())


class _AfterExtension(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname != _EXTENSION:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _add(module)

        spec.loader.exec_module = exec_module
        return spec


def _add(extension) -> None:
    from torch_npu._torchvision import kernels

    backends = ["PrivateUse1"]
    library = torch.library.Library("torchvision", "FRAGMENT")
    _libraries.append(library)  # its registrations live as long as it does
    if not extension._has_ops():
        for schema in SCHEMAS:
            if not hasattr(torch.ops.torchvision, schema.partition("(")[0]):  # a program may have defined some to get around this
                library.define(schema)
        backends.append("CPU")
        library.impl("_cuda_version", lambda: -1, "CompositeImplicitAutograd")
        extension._has_ops = lambda: True
    for name, kernel in kernels.KERNELS.items():
        if not torch._C._dispatch_has_kernel(f"torchvision::{name}"):
            continue  # an older torchvision
        for backend in backends:
            library.impl(name, kernel, backend)
        if not name.startswith("_"):
            library.impl(name, _in_float32(name), "AutocastPrivateUse1")


def _in_float32(name: str):
    """Autocast as torchvision has it for CUDA: coordinates need float32; results have the type of the features."""
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def wide(value):
        return value.float() if isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16) else value

    def kernel(first, *rest):
        with torch._C._ExcludeDispatchKeyGuard(key):
            results = getattr(torch.ops.torchvision, name)(wide(first), *map(wide, rest))
        one = isinstance(results, torch.Tensor)
        results = [r.to(first.dtype) if r.is_floating_point() else r for r in ([results] if one else results)]
        return results[0] if one else tuple(results)

    return kernel
