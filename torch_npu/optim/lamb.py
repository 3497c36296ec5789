"""Lamb: an Adam step without bias correction, scaled for each parameter by the ratio of its norm to the step's."""

import torch

from torch_npu.optim.base import Bucket, NpuFusedOptimizerBase, require

__all__ = ["NpuFusedLamb"]

_MAX_WEIGHT_NORM = 10.0


class NpuFusedLamb(NpuFusedOptimizerBase):
    """adam=True leaves the ratio at one. use_global_grad_norm=True first scales all gradients to a norm of at most one."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0, adam=False,
                 use_global_grad_norm=False) -> None:
        require(lr >= 0, "learning rate", lr)
        require(eps >= 0, "epsilon", eps)
        require(weight_decay >= 0, "weight_decay", weight_decay)
        for index, beta in enumerate(betas):
            require(0 <= beta < 1, f"beta parameter at index {index}", beta)
        self._adam, self._use_global_grad_norm = adam, use_global_grad_norm
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def state_of(self, group):
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def before_update(self, buckets: list[Bucket]) -> None:
        if self._use_global_grad_norm and buckets:
            norm = torch.stack([torch.linalg.vector_norm(bucket.grad) for bucket in buckets]).norm()
            torch._foreach_div_([bucket.grad for bucket in buckets], norm.clamp(min=1.0))

    def update(self, group, bucket: Bucket) -> None:
        bucket.step += 1
        beta1, beta2 = group["betas"]
        if bucket.is_fused("npu::_fused_lamb_"):
            torch.ops.npu._fused_lamb_(
                bucket.param, bucket.grad, bucket.state["exp_avg"], bucket.state["exp_avg_sq"], bucket.sizes, lr=group["lr"], beta1=beta1,
                beta2=beta2, eps=group["eps"], weight_decay=group["weight_decay"], trust=not self._adam)
            return
        mean = bucket.state["exp_avg"].lerp_(bucket.grad, 1 - beta1)
        square = bucket.state["exp_avg_sq"].mul_(beta2).addcmul_(bucket.grad, bucket.grad, value=1 - beta2)
        step = mean / square.sqrt().add_(group["eps"])
        if group["weight_decay"]:
            step.add_(bucket.param, alpha=group["weight_decay"])
        if not self._adam:
            weights = torch.stack(torch._foreach_norm(bucket.split(bucket.param))).clamp_(max=_MAX_WEIGHT_NORM)
            steps = torch.stack(torch._foreach_norm(bucket.split(step)))
            ratios = torch.where((weights == 0) | (steps == 0), 1.0, weights / steps)
            step.mul_(bucket.spread(ratios))
        bucket.param.add_(step, alpha=-group["lr"])
