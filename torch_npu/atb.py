"""torch_npu.atb.X is torch.ops.atb.X: see torch_npu/custom_ops/atb.py."""

import torch

from torch_npu.custom_ops import ATB_NAMES


def __getattr__(name: str):
    if name in ATB_NAMES:
        return getattr(torch.ops.atb, name)
    raise AttributeError(f"torch_npu.atb has no operator {name}: it has {', '.join(sorted(ATB_NAMES))}")


def __dir__() -> list[str]:
    return sorted(ATB_NAMES)
