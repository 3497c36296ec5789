"""BertAdam: Adam without bias correction, with decoupled decay, a learning-rate schedule and clipping per parameter."""

import math

import torch

from torch_npu.optim.base import Bucket, NpuFusedOptimizerBase, require

__all__ = ["NpuFusedBertAdam"]

# Factor of the learning rate after warmup, for progress x in [0, 1]; before it, the factor is x / warmup.
SCHEDULES = {
    "warmup_cosine": lambda x, warmup: 0.5 * (1.0 + math.cos(math.pi * x)),
    "warmup_constant": lambda x, warmup: 1.0,
    "warmup_linear": lambda x, warmup: max((x - 1.0) / (warmup - 1.0), 0.0),
    "warmup_poly": lambda x, warmup: (1.0 - x) ** 0.5,
}


class NpuFusedBertAdam(NpuFusedOptimizerBase):
    """warmup is a fraction of t_total; t_total=-1 keeps the learning rate constant."""

    def __init__(self, params, lr=1e-3, warmup=-1, t_total=-1, schedule="warmup_linear", b1=0.9, b2=0.999, e=1e-6,
                 weight_decay=0.01, max_grad_norm=1.0) -> None:
        require(lr >= 0, "learning rate", lr)
        require(schedule in SCHEDULES, "schedule", schedule)
        require(warmup == -1 or 0 <= warmup < 1, "warmup", warmup)
        require(0 <= b1 < 1, "b1", b1)
        require(0 <= b2 < 1, "b2", b2)
        require(e >= 0, "e", e)
        require(weight_decay >= 0, "weight_decay", weight_decay)
        super().__init__(params, {"lr": lr, "warmup": warmup, "t_total": t_total, "schedule": schedule, "b1": b1, "b2": b2,
                                  "e": e, "weight_decay": weight_decay, "max_grad_norm": max_grad_norm})

    def state_of(self, group):
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def _rate(self, group, step: float) -> float:
        if group["t_total"] == -1:
            return group["lr"]
        progress, warmup = step / group["t_total"], group["warmup"]
        factor = progress / warmup if progress < warmup else SCHEDULES[group["schedule"]](progress, warmup)
        return group["lr"] * factor

    def update(self, group, bucket: Bucket) -> None:
        rate = self._rate(group, float(bucket.step))
        bucket.step += 1
        if bucket.is_fused("npu::_fused_bert_adam_"):
            torch.ops.npu._fused_bert_adam_(
                bucket.param, bucket.grad, bucket.state["exp_avg"], bucket.state["exp_avg_sq"], bucket.sizes, lr=rate, beta1=group["b1"],
                beta2=group["b2"], eps=group["e"], weight_decay=group["weight_decay"], max_grad_norm=group["max_grad_norm"])
            return
        if group["max_grad_norm"] > 0:
            norms = torch.stack(torch._foreach_norm(bucket.split(bucket.grad)))
            factors = torch.clamp(group["max_grad_norm"] / (norms + 1e-6), max=1.0)
            bucket.grad.mul_(bucket.spread(factors))
        mean = bucket.state["exp_avg"].lerp_(bucket.grad, 1 - group["b1"])
        square = bucket.state["exp_avg_sq"].mul_(group["b2"]).addcmul_(bucket.grad, bucket.grad, value=1 - group["b2"])
        step = mean / square.sqrt().add_(group["e"])
        if group["weight_decay"]:
            step.add_(bucket.param, alpha=group["weight_decay"])
        bucket.param.add_(step, alpha=-rate)
