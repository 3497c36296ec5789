"""An optimizer that counts its steps on the host cannot be captured: each replay would be the step of the capture again.

Upstream's check (Optimizer._accelerator_graph_capture_health_check) knows the accelerators by name and the npu is not among them; this one
is registered as every optimizer's hook before a step.
"""

from __future__ import annotations

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from torch_npu import _C


def register() -> None:
    register_optimizer_step_pre_hook(_check)


def _check(optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
    if torch.compiler.is_compiling() or not _C.is_current_stream_capturing():
        return
    # Fused steps count on the card.
    if not all(group.get("capturable", True) or group.get("fused") for group in optimizer.param_groups):
        raise RuntimeError(
            f"Attempting NPU graph capture of step() for an instance of {type(optimizer).__name__} but param_groups' capturable is False."
            " Construct it with capturable=True."
        )
