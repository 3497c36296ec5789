"""Mixed precision in the manner of apex.amp, and fused optimisers, for the npu device of torch_npu.

Written for torch_npu on top of torch.autocast and torch's foreach operators; nothing is compiled.
"""

__version__ = "0.1+ascend"

from apex import amp  # noqa: F401


def __getattr__(name: str):
    if name == "optimizers":  # needs torch_npu; apex.amp alone does not
        from importlib import import_module

        return import_module("apex.optimizers")
    raise AttributeError(f"module 'apex' has no attribute '{name}'")
