"""Which ATen operators run on the npu, and how."""

from __future__ import annotations

import torch

from torch_npu import _C, npu

_COMPOSITE = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


def op_support() -> dict[str, str]:
    """How each ATen operator runs on the device in use: `{"aten::add.Tensor": "native", ...}`.

    native: an operator of the device library; extension: one that CANN has no name for; composite: made of other
    operators by torch; fallback: computed on the CPU, counted by `fallback_counts()`; unsupported: not on the CPU either.
    """
    npu.init()  # operators that the device library lacks are withdrawn then
    kernels = dict(_C.operators())
    withdrawn = dict(_C.withdrawn_operators())
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    support = {}
    for name in sorted(set(torch._C._dispatch_get_all_op_names())):
        if not name.startswith("aten::"):
            continue
        if name in kernels:
            support[name] = "extension" if "softnpu" in kernels[name] else "native"
        elif name in withdrawn and has(name, "PrivateUse1"):
            support[name] = "fallback"  # torch's composition does not serve here
        elif any(has(name, key) for key in _COMPOSITE):
            support[name] = "composite"
        else:
            support[name] = "fallback" if has(name, "CPU") else "unsupported"
    return support
