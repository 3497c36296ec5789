"""AdamP: Adam whose step is projected off the direction of scale-invariant weights."""

import math

import torch

from torch_npu.optim.base import Bucket, NpuFusedOptimizerBase, require

__all__ = ["NpuFusedAdamP"]


class NpuFusedAdamP(NpuFusedOptimizerBase):
    """A weight is scale invariant, by channel or as a whole, if its gradient is nearly orthogonal to it (see delta)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, delta=0.1, wd_ratio=0.1,
                 nesterov=False) -> None:
        require(lr >= 0, "learning rate", lr)
        require(eps >= 0, "epsilon", eps)
        require(weight_decay >= 0, "weight_decay", weight_decay)
        for index, beta in enumerate(betas):
            require(0 <= beta < 1, f"beta parameter at index {index}", beta)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "delta": delta,
                                  "wd_ratio": wd_ratio, "nesterov": nesterov})

    def state_of(self, group):
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def update(self, group, bucket: Bucket) -> None:
        bucket.step += 1
        (beta1, beta2), count = group["betas"], float(bucket.step)
        state, decay = bucket.state, group["weight_decay"]
        if bucket.is_fused("npu::_fused_adamp_"):
            rows = [p.size(0) if p.dim() > 1 else 0 for p in bucket.parameters]
            torch.ops.npu._fused_adamp_(
                bucket.param, bucket.grad, state["exp_avg"], state["exp_avg_sq"], bucket.count_on_card(), bucket.sizes, rows,
                lr=group["lr"], beta1=beta1, beta2=beta2, eps=group["eps"], weight_decay=decay, delta=group["delta"],
                wd_ratio=group["wd_ratio"], nesterov=group["nesterov"])
            return
        mean = state["exp_avg"].mul_(beta1).add_(bucket.grad, alpha=1 - beta1)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(bucket.grad, bucket.grad, value=1 - beta2)
        root = (square.sqrt() / math.sqrt(1 - beta2**count)).add_(group["eps"])
        step = (beta1 * mean + (1 - beta1) * bucket.grad if group["nesterov"] else mean) / root
        off, ratio = Projection.of(bucket).project(bucket.param, bucket.grad, step, group)
        step.sub_(off)
        if decay:
            bucket.param.mul_(1 - group["lr"] * decay * ratio)
        bucket.param.add_(step, alpha=-group["lr"] / (1 - beta1**count))


class Projection:
    """The rows of a bucket's weights, and the projection of all of them at once.

    A row is what one output channel has, or a whole parameter of one dimension, which is not projected. Numbers of each row and of
    each parameter are sums by index. Without branches on values, which would wait for the card: both projections are computed, one
    of the three results chosen.
    """

    def __init__(self, bucket: Bucket) -> None:
        device, shapes = bucket.param.device, [p.shape for p in bucket.parameters]
        self.rows = [shape[0] if len(shape) > 1 and shape.numel() else 1 for shape in shapes]
        widths = [shape.numel() // rows for shape, rows in zip(shapes, self.rows)]
        repeats = [width for width, rows in zip(widths, self.rows) for _ in range(rows)]
        self.row_of = torch.repeat_interleave(torch.tensor(repeats, dtype=torch.int64)).to(device)  # of each element
        self.parameter_of = torch.repeat_interleave(torch.tensor(self.rows)).to(device)  # of each row
        limits = [[1 / math.sqrt(n) if len(shape) > 1 and n else 0.0 for shape, n in zip(shapes, counts)]
                  for counts in (widths, bucket.sizes)]
        self.row_limit, self.whole_limit = torch.tensor(limits).to(device)

    @staticmethod
    def of(bucket: Bucket) -> "Projection":
        if bucket.projection is None:
            bucket.projection = Projection(bucket)
        return bucket.projection

    def project(self, weight: torch.Tensor, grad: torch.Tensor, step: torch.Tensor, group: dict) -> tuple[torch.Tensor, torch.Tensor]:
        """What to take off `step`, and the factor of the weight decay, for every element."""
        eps, delta = group["eps"], group["delta"]
        w, g, s = (t.to(torch.promote_types(t.dtype, torch.float32)) for t in (weight, grad, step))
        products = torch.stack(torch._foreach_mul([w, w, g, w], [g, w, g, s]))
        rows = products.new_zeros(4, len(self.parameter_of)).index_add_(1, self.row_of, products)
        whole = rows.new_zeros(4, len(self.rows)).index_add_(1, self.parameter_of, rows)
        largest = torch.stack(torch._foreach_norm(list(_cosine(rows, eps).split(self.rows)), torch.inf))
        by_row = largest < delta * self.row_limit
        by_whole = (_cosine(whole, eps) < delta * self.whole_limit) & ~by_row
        shares = torch.where(by_row[self.parameter_of], _share(rows, eps), (_share(whole, eps) * by_whole)[self.parameter_of])
        ratios = torch.where(by_row | by_whole, group["wd_ratio"], 1.0)[self.parameter_of]
        return (shares[self.row_of] * w).to(step.dtype), ratios[self.row_of].to(weight.dtype)


def _cosine(sums: torch.Tensor, eps: float) -> torch.Tensor:
    weight, grad = sums[1:3].sqrt().clamp(min=eps)
    return sums[0].abs() / (weight * grad)


def _share(sums: torch.Tensor, eps: float) -> torch.Tensor:
    """How much of the weight is in the step: without it, the step is orthogonal to the weight."""
    return sums[3] / (sums[1].sqrt() + eps).square()
