"""RMSprop as TensorFlow computes it: the average starts at one, eps is under the root, momentum may hold the learning rate."""

import torch

from torch_npu.optim.base import Bucket, NpuFusedOptimizerBase, require

__all__ = ["NpuFusedRMSpropTF"]


class NpuFusedRMSpropTF(NpuFusedOptimizerBase):
    """RMSprop as TensorFlow defines it: epsilon inside the root, the average begins at one."""

    def __init__(self, params, lr=1e-2, alpha=0.9, eps=1e-10, weight_decay=0, momentum=0.0, centered=False,
                 decoupled_decay=False, lr_in_momentum=True) -> None:
        require(lr >= 0, "learning rate", lr)
        require(eps >= 0, "epsilon", eps)
        require(momentum >= 0, "momentum", momentum)
        require(alpha >= 0, "alpha", alpha)
        require(weight_decay >= 0, "weight_decay", weight_decay)
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum,
                                  "centered": centered, "decoupled_decay": decoupled_decay,
                                  "lr_in_momentum": lr_in_momentum})

    def state_of(self, group):
        state = {"square_avg": 1.0}
        if group["momentum"] > 0:
            state["momentum_buffer"] = 0.0
        if group["centered"]:
            state["grad_avg"] = 0.0
        return state

    def update(self, group, bucket: Bucket) -> None:
        bucket.step += 1
        lr, rate = group["lr"], 1 - group["alpha"]
        param, grad, state = bucket.param, bucket.grad, bucket.state
        if bucket.is_fused("npu::_fused_rmsprop_"):
            torch.ops.npu._fused_rmsprop_(
                param, grad, state["square_avg"], state.get("grad_avg"), state.get("momentum_buffer"), lr=lr, alpha=group["alpha"],
                eps=group["eps"], weight_decay=group["weight_decay"], momentum=group["momentum"], eps_in_root=True,
                decoupled_decay=group["decoupled_decay"], lr_in_momentum=group["lr_in_momentum"])
            return
        if group["weight_decay"] and group["decoupled_decay"]:
            param.mul_(1 - lr * group["weight_decay"])
        elif group["weight_decay"]:
            grad = grad.add(param, alpha=group["weight_decay"])
        square = state["square_avg"].lerp_(grad * grad, rate)
        if group["centered"]:
            mean = state["grad_avg"].lerp_(grad, rate)
            square = square.addcmul(mean, mean, value=-1)
        root = (square + group["eps"]).sqrt_()
        if group["momentum"] > 0:
            in_buffer, outside = (lr, 1.0) if group["lr_in_momentum"] else (1.0, lr)
            buffer = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, root, value=in_buffer)
            param.add_(buffer, alpha=-outside)
        else:
            param.addcdiv_(grad, root, value=-lr)
