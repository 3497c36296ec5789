"""torchvision's own operators (torch.ops.torchvision.*) for npu tensors, registered once torchvision has loaded its extension.

Nothing of torchvision is imported here (torch_npu/_after_import.py).

The wheel on PyPI is built for CUDA. Where torch has no CUDA libraries its extension cannot be loaded, and importing torchvision
fails at the first operator that does not exist. Then the operators are defined here, for the CPU as well, and torchvision is told
that they exist; the kernels are compositions of ATen operators (kernels.py).
"""

import torch

from torch_npu._torchvision.schemas import SCHEMAS

_libraries: list = []


def add(extension) -> None:
    """Called after the import of torchvision.extension."""
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
        extension._has_ops = _has_ops
    for name, kernel in kernels.KERNELS.items():
        if not torch._C._dispatch_has_kernel(f"torchvision::{name}"):
            continue  # an older torchvision
        for backend in backends:
            library.impl(name, kernel, backend)
        if not name.startswith("_"):
            library.impl(name, _in_float32(name), "AutocastPrivateUse1")


def _has_ops():  # no lambda: TorchScript compiles its source
    return True


def _in_float32(name: str):
    """Autocast as torchvision has it for CUDA: coordinates need float32; results have the type of the features."""
    key = torch._C.DispatchKeySet(torch._C._dispatch_key_parse("AutocastPrivateUse1"))

    def wide(value):
        return value.float() if isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16) else value

    def kernel(first, *rest):
        with torch._C._ExcludeDispatchKeyGuard(key):
            results = getattr(torch.ops.torchvision, name)(wide(first), *map(wide, rest))
        one = isinstance(results, torch.Tensor)
        results = [r.to(first.dtype) if r.is_floating_point() else r for r in ([results] if one else results)]
        return results[0] if one else tuple(results)

    return kernel
