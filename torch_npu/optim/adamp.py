"""AdamP: Adam whose step is projected off the direction of scale-invariant weights."""

import math

import torch

from torch_npu.optim.base import Bucket, NpuFusedOptimizerBase
from torch_npu.optim.upstream import require

__all__ = ["NpuFusedAdamP"]


class NpuFusedAdamP(NpuFusedOptimizerBase):
    """A weight is scale invariant, by channel or as a whole, if its gradient is nearly orthogonal to it (see delta)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, delta=0.1, wd_ratio=0.1,
                 nesterov=False) -> None:
        require(lr >= 0, "learning rate", lr)
        require(eps >= 0, "epsilon", eps)
        for index, beta in enumerate(betas):
            require(0 <= beta < 1, f"beta parameter at index {index}", beta)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "delta": delta,
                                  "wd_ratio": wd_ratio, "nesterov": nesterov})

    def state_of(self, group):
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def update(self, group, bucket: Bucket) -> None:
        bucket.step += 1
        (beta1, beta2), count = group["betas"], float(bucket.step)
        mean = bucket.state["exp_avg"].mul_(beta1).add_(bucket.grad, alpha=1 - beta1)
        square = bucket.state["exp_avg_sq"].mul_(beta2).addcmul_(bucket.grad, bucket.grad, value=1 - beta2)
        root = (square.sqrt() / math.sqrt(1 - beta2**count)).add_(group["eps"])
        step = (beta1 * mean + (1 - beta1) * bucket.grad if group["nesterov"] else mean) / root
        for param, grad, part in zip(bucket.split(bucket.param), bucket.split(bucket.grad), bucket.split(step)):
            ratio = _project(param, grad, part, group) if param.dim() > 1 else 1.0
            if group["weight_decay"] > 0:
                param.mul_(1 - group["lr"] * group["weight_decay"] * ratio)
        bucket.param.add_(step, alpha=-group["lr"] / (1 - beta1**count))


def _project(param, grad, step, group):
    """Projects `step` in place where the weight is invariant, by channel first; returns the factor of the weight decay.

    Without branches on values, which would wait for the card: both projections are computed, one of the three chosen.
    """
    result, ratio, decided = step, 1.0, torch.zeros((), dtype=torch.bool, device=param.device)
    for rows in (param.size(0), 1):
        weight, flat_grad = param.reshape(rows, -1), grad.reshape(rows, -1)
        cosine = torch.nn.functional.cosine_similarity(flat_grad, weight, dim=1, eps=group["eps"]).abs().max()
        chosen = (cosine < group["delta"] / math.sqrt(weight.size(1))) & ~decided
        unit = weight / (weight.norm(dim=1, keepdim=True) + group["eps"])
        flat = step.reshape(rows, -1)
        projected = flat - unit * (unit * flat).sum(1, keepdim=True)
        result = torch.where(chosen, projected.view_as(step), result)
        ratio = torch.where(chosen, group["wd_ratio"], ratio)
        decided = decided | chosen
    step.copy_(result)
    return ratio
