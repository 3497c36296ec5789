"""Every option of every optimiser of torch_npu.optim, and the rules written out in float64: what the tests of this folder compare with."""

from __future__ import annotations

import math

import torch

from torch_npu import optim


def of_torch(cls):
    def run(params, grads, **options):
        params = [torch.nn.Parameter(p.clone()) for p in params]
        optimizer = cls(params, foreach=False, **options)
        for step in grads:
            for p, g in zip(params, step):
                p.grad = g.clone()
            optimizer.step()
        return [p.detach() for p in params]
    return run


def lamb(params, grads, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0, adam=False, use_global_grad_norm=False):
    params, (b1, b2) = list(params), betas
    m, v = [torch.zeros_like(p) for p in params], [torch.zeros_like(p) for p in params]
    for step in grads:
        norm = max(1.0, math.sqrt(sum(float((g * g).sum()) for g in step))) if use_global_grad_norm else 1.0
        for i, p in enumerate(params):
            g = step[i] / norm
            m[i], v[i] = b1 * m[i] + (1 - b1) * g, b2 * v[i] + (1 - b2) * g * g
            change = m[i] / (v[i].sqrt() + eps) + weight_decay * p
            weight, length = min(float(p.norm()), 10.0), float(change.norm())
            trust = 1.0 if adam or weight == 0 or length == 0 else weight / length
            params[i] = p - lr * trust * change
    return params


def bert_adam(params, grads, lr=1e-3, warmup=-1, t_total=-1, schedule="warmup_linear", b1=0.9, b2=0.999, e=1e-6, weight_decay=0.01,
              max_grad_norm=1.0):
    after = {"warmup_linear": lambda x: max((x - 1) / (warmup - 1), 0), "warmup_constant": lambda x: 1.0,
             "warmup_cosine": lambda x: 0.5 * (1 + math.cos(math.pi * x)), "warmup_poly": lambda x: math.sqrt(1 - x)}[schedule]
    params = list(params)
    m, v = [torch.zeros_like(p) for p in params], [torch.zeros_like(p) for p in params]
    for t, step in enumerate(grads):
        x = t / t_total
        rate = lr if t_total == -1 else lr * (x / warmup if x < warmup else after(x))
        for i, p in enumerate(params):
            g = step[i] * min(1.0, max_grad_norm / (float(step[i].norm()) + 1e-6)) if max_grad_norm > 0 else step[i]
            m[i], v[i] = b1 * m[i] + (1 - b1) * g, b2 * v[i] + (1 - b2) * g * g
            params[i] = p - rate * (m[i] / (v[i].sqrt() + e) + weight_decay * p)
    return params


def rmsprop_tf(params, grads, lr=1e-2, alpha=0.9, eps=1e-10, weight_decay=0, momentum=0.0, centered=False, decoupled_decay=False,
               lr_in_momentum=True):
    """`lr` may be a list, one for each step: without a change of it lr_in_momentum makes no difference."""
    result, rates = [], lr if isinstance(lr, list) else [lr] * len(grads)
    for i, p in enumerate(params):
        square, mean, buffer = torch.ones_like(p), torch.zeros_like(p), torch.zeros_like(p)
        for step, lr in zip(grads, rates, strict=True):
            p = p * (1 - lr * weight_decay) if decoupled_decay else p
            g = step[i] if decoupled_decay else step[i] + weight_decay * p
            square = alpha * square + (1 - alpha) * g * g
            mean = alpha * mean + (1 - alpha) * g
            change = g / (square - (mean * mean if centered else 0) + eps).sqrt()
            if momentum:
                buffer = momentum * buffer + (lr if lr_in_momentum else 1) * change
                p = p - (1 if lr_in_momentum else lr) * buffer
            else:
                p = p - lr * change
        result.append(p)
    return result


def adamp(params, grads, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, delta=0.1, wd_ratio=0.1, nesterov=False):
    (b1, b2), result = betas, []
    for i, p in enumerate(params):
        m, v = torch.zeros_like(p), torch.zeros_like(p)
        for t, step in enumerate(grads, 1):
            g = step[i]
            m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
            change, ratio = (b1 * m + (1 - b1) * g if nesterov else m) / ((v / (1 - b2**t)).sqrt() + eps), 1.0
            for rows in (p.size(0), 1) if p.dim() > 1 and p.numel() else ():
                w = p.reshape(rows, -1)
                if torch.cosine_similarity(g.reshape(rows, -1), w, dim=1, eps=eps).abs().max() < delta / math.sqrt(w.size(1)):
                    unit, flat = w / (w.norm(dim=1, keepdim=True) + eps), change.reshape(rows, -1)
                    change, ratio = (flat - unit * (unit * flat).sum(1, keepdim=True)).view_as(p), wd_ratio
                    break
            p = p * (1 - lr * weight_decay * ratio) - lr / (1 - b1**t) * change
        result.append(p)
    return result


_ADAM = {"lr": {"lr": 0.03}, "betas": {"betas": (0.6, 0.7)}, "eps": {"eps": 0.5}, "weight_decay": {"weight_decay": 0.3}}
_AMSGRAD = {"amsgrad": {"amsgrad": True, "betas": (0.3, 0.2)}}
_DECAY = {"weight_decay": 0.3}
_SCHEDULE = {"warmup": 0.25, "t_total": 8}

# Class: (rule, options of all cases, {option: what its case gives}).
RULES = {
    optim.NpuFusedSGD: (of_torch(torch.optim.SGD), {"lr": 0.1}, {
        "lr": {"lr": 0.2}, "momentum": {"momentum": 0.8}, "dampening": {"momentum": 0.8, "dampening": 0.4},
        "weight_decay": {"weight_decay": 0.3}, "nesterov": {"momentum": 0.8, "nesterov": True}}),
    optim.NpuFusedAdam: (of_torch(torch.optim.Adam), {"lr": 0.1}, {**_ADAM, **_AMSGRAD}),
    optim.NpuFusedAdamW: (of_torch(torch.optim.AdamW), {"lr": 0.1}, {**_ADAM, **_AMSGRAD}),
    optim.NpuFusedAdadelta: (of_torch(torch.optim.Adadelta), {"lr": 10.0}, {
        "lr": {"lr": 20.0}, "rho": {"rho": 0.5}, "eps": {"eps": 1e-2}, "weight_decay": {"weight_decay": 0.3}}),
    optim.NpuFusedRMSprop: (of_torch(torch.optim.RMSprop), {"lr": 0.05}, {
        "lr": {"lr": 0.01}, "alpha": {"alpha": 0.5}, "eps": {"eps": 0.5}, "weight_decay": {"weight_decay": 0.3},
        "momentum": {"momentum": 0.8, "weight_decay": 0.1}, "centered": {"centered": True, "momentum": 0.5}}),
    optim.NpuFusedRMSpropTF: (rmsprop_tf, {"lr": 0.05}, {
        "lr": {"lr": 0.1}, "alpha": {"alpha": 0.5}, "eps": {"eps": 0.5}, "weight_decay": {"weight_decay": 0.3},
        "momentum": {"momentum": 0.8}, "centered": {"centered": True, **_DECAY}, "decoupled_decay": {"decoupled_decay": True, **_DECAY},
        "lr_in_momentum": {"lr_in_momentum": False, "momentum": 0.8, "lr": [0.05, 0.2, 0.1, 0.02, 0.2, 0.3]}}),
    optim.NpuFusedLamb: (lamb, {"lr": 0.1}, {
        **_ADAM, "adam": {"adam": True, **_DECAY}, "use_global_grad_norm": {"use_global_grad_norm": True, "eps": 0.5}}),
    optim.NpuFusedBertAdam: (bert_adam, {"lr": 0.1}, {
        "lr": {"lr": 0.2}, "warmup": _SCHEDULE, "t_total": {"t_total": 8}, "b1": {"b1": 0.5}, "b2": {"b2": 0.6}, "e": {"e": 0.5},
        "weight_decay": {"weight_decay": 0.4}, "max_grad_norm": {"max_grad_norm": -1, "e": 0.5},
        **{f"schedule {name}": {"schedule": f"warmup_{name}", **_SCHEDULE} for name in ("cosine", "constant", "poly")}}),
    optim.NpuFusedAdamP: (adamp, {"lr": 0.1}, {
        **_ADAM, "delta": {"delta": 10.0}, "delta by whole": {"delta": 0.9}, "wd_ratio": {"wd_ratio": 0.5, "delta": 10.0, **_DECAY},
        "nesterov": {"nesterov": True, "delta": 10.0}}),
}
CASES = [(cls, option) for cls, (_, _, options) in RULES.items() for option in options]
NAMES = [f"{cls.__name__}-{option}" for cls, option in CASES]
