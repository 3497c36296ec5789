"""The fused forms of torch.optim's classes: torch's own functional update on one combined tensor, so results are equal."""

import torch
from torch.optim.adadelta import adadelta
from torch.optim.adam import adam
from torch.optim.rmsprop import rmsprop
from torch.optim.sgd import sgd

from torch_npu.optim.base import Bucket, NpuFusedOptimizerBase, require

__all__ = ["NpuFusedAdadelta", "NpuFusedAdam", "NpuFusedAdamW", "NpuFusedRMSprop", "NpuFusedSGD"]


class NpuFusedSGD(NpuFusedOptimizerBase):
    """torch.optim.SGD."""

    def __init__(self, params, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False) -> None:
        require(lr >= 0, "learning rate", lr)
        require(momentum >= 0, "momentum", momentum)
        require(weight_decay >= 0, "weight_decay", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov})

    def state_of(self, group):
        return {"momentum_buffer": 0.0} if group["momentum"] else {}

    def update(self, group, bucket: Bucket) -> None:
        # The first step copies the gradient into the buffer, without dampening: torch is told that there is none yet.
        buffer = bucket.state.get("momentum_buffer")
        if bucket.is_fused("aten::_fused_sgd_"):
            torch._fused_sgd_([bucket.param], [bucket.grad], [] if buffer is None else [buffer], weight_decay=group["weight_decay"],
                              momentum=group["momentum"], lr=group["lr"], dampening=group["dampening"], nesterov=group["nesterov"],
                              maximize=False, is_first_step=buffer is not None and float(bucket.step) == 0)
            bucket.step += 1
            return
        buffers = [None if bucket.step == 0 else buffer]
        sgd([bucket.param], [bucket.grad], buffers, weight_decay=group["weight_decay"], momentum=group["momentum"],
            lr=group["lr"], dampening=group["dampening"], nesterov=group["nesterov"], maximize=False, foreach=False)
        made = buffers[0]
        if buffer is not None and made is not None and made is not buffer:
            buffer.copy_(made)
        bucket.step += 1


class NpuFusedAdam(NpuFusedOptimizerBase):
    """torch.optim.Adam."""

    decoupled = False

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False) -> None:
        require(lr >= 0, "learning rate", lr)
        require(eps >= 0, "epsilon", eps)
        require(weight_decay >= 0, "weight_decay", weight_decay)
        for index, beta in enumerate(betas):
            require(0 <= beta < 1, f"beta parameter at index {index}", beta)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad})

    def state_of(self, group):
        return dict.fromkeys(["exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * group["amsgrad"], 0.0)

    def update(self, group, bucket: Bucket) -> None:
        state, (beta1, beta2) = bucket.state, group["betas"]
        tensors = ([bucket.param], [bucket.grad], [state["exp_avg"]], [state["exp_avg_sq"]],
                   [state["max_exp_avg_sq"]] if group["amsgrad"] else [])
        options = {"lr": group["lr"], "beta1": beta1, "beta2": beta2, "weight_decay": group["weight_decay"], "eps": group["eps"],
                   "amsgrad": group["amsgrad"], "maximize": False}
        if bucket.is_fused("aten::_fused_adamw_" if self.decoupled else "aten::_fused_adam_"):
            bucket.step += 1
            kernel = torch._fused_adamw_ if self.decoupled else torch._fused_adam_
            kernel(*tensors, [bucket.count_on_card()], **options)
        else:
            adam(*tensors, [bucket.step], foreach=False, fused=False, decoupled_weight_decay=self.decoupled, **options)


class NpuFusedAdamW(NpuFusedAdam):
    """torch.optim.AdamW."""

    decoupled = True

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)


class NpuFusedAdadelta(NpuFusedOptimizerBase):
    """torch.optim.Adadelta."""

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0) -> None:
        require(lr >= 0, "learning rate", lr)
        require(0 <= rho <= 1, "rho", rho)
        require(eps >= 0, "epsilon", eps)
        require(weight_decay >= 0, "weight_decay", weight_decay)
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay})

    def state_of(self, group):
        return {"square_avg": 0.0, "acc_delta": 0.0}

    def update(self, group, bucket: Bucket) -> None:
        state = bucket.state
        options = {name: group[name] for name in ("lr", "rho", "eps", "weight_decay")}
        if bucket.is_fused("npu::_fused_adadelta_"):
            bucket.step += 1
            torch.ops.npu._fused_adadelta_(bucket.param, bucket.grad, state["square_avg"], state["acc_delta"], **options)
        else:
            adadelta([bucket.param], [bucket.grad], [state["square_avg"]], [state["acc_delta"]], [bucket.step], foreach=False,
                     maximize=False, **options)


class NpuFusedRMSprop(NpuFusedOptimizerBase):
    """torch.optim.RMSprop."""

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False) -> None:
        require(lr >= 0, "learning rate", lr)
        require(eps >= 0, "epsilon", eps)
        require(momentum >= 0, "momentum", momentum)
        require(alpha >= 0, "alpha", alpha)
        require(weight_decay >= 0, "weight_decay", weight_decay)
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay,
                                  "momentum": momentum, "centered": centered})

    def state_of(self, group):
        names = ["square_avg"] + ["momentum_buffer"] * (group["momentum"] > 0) + ["grad_avg"] * group["centered"]
        return dict.fromkeys(names, 0.0)

    def update(self, group, bucket: Bucket) -> None:
        state = bucket.state
        options = {name: group[name] for name in ("lr", "alpha", "eps", "weight_decay", "momentum")}
        if bucket.is_fused("npu::_fused_rmsprop_"):
            bucket.step += 1
            torch.ops.npu._fused_rmsprop_(bucket.param, bucket.grad, state["square_avg"], state.get("grad_avg"),
                                          state.get("momentum_buffer"), **options)
        else:
            rmsprop([bucket.param], [bucket.grad], [state["square_avg"]], [state["grad_avg"]] if group["centered"] else [],
                    [state["momentum_buffer"]] if group["momentum"] > 0 else [], [bucket.step], foreach=False,
                    centered=group["centered"], maximize=False, **options)
