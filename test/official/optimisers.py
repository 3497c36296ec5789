"""Optimisers: torch's in their implementations, the client's fused ones on combined tensors, schedulers and clipping."""

import warnings

import torch
from rows import each
from torch.testing._internal.common_optimizers import optim_db

import torch_npu

IN_MODES = ("queue 1",)
torch.manual_seed(0)
START, GRADIENTS = [torch.randn(3, 4), torch.randn(5)], [[torch.randn(3, 4), torch.randn(5)] for _ in range(4)]
TABLE = {
    f"{info.optim_cls.__name__}, {implementation}": (info.optim_cls, implementation)
    for info in optim_db
    for implementation in ("forloop", "foreach", "fused")
    if info.optim_cls.__name__ not in ("LBFGS", "SparseAdam", "Muon")
    and (implementation == "forloop" or implementation in info.supported_impls)
}


def step(optimiser, parameters, gradients):
    optimiser.zero_grad()
    sum((p * g.to(p.device)).sum() for p, g in zip(parameters, gradients)).backward()
    optimiser.step()


def stepped(make, device, steps=4):
    parameters = [start.clone().to(device).requires_grad_() for start in START]
    optimiser = make(parameters)
    for gradients in GRADIENTS[:steps]:
        step(optimiser, parameters, gradients)
    return [parameter.detach().cpu() for parameter in parameters]


def close(found, expected, tolerance=1e-4):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    assert not torch.equal(expected[0], START[0])


@each(TABLE)
def check_steps_are_the_cpus(row):
    kind, implementation = row
    choice = {"foreach": False} if implementation == "forloop" else {implementation: True}
    plain = {"lr": 0.1, "momentum": 0.9} if kind is torch.optim.SGD else {}  # the client's fused one takes no momentum of 0
    close(stepped(lambda p: kind(p, **choice, **plain), "npu"), stepped(lambda p: kind(p, **plain), "cpu"))


OPTIONS = {
    "SGD, momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "SGD, nesterov": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "SGD, dampening": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    "SGD, maximize": (torch.optim.SGD, {"lr": 0.1, "maximize": True}),
    "SGD, weight decay": (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.1}),
    "Adam, amsgrad": (torch.optim.Adam, {"amsgrad": True}),
    "Adam, weight decay": (torch.optim.Adam, {"weight_decay": 0.1}),
    "Adam, maximize": (torch.optim.Adam, {"maximize": True}),
    "Adam, lr as a tensor": (torch.optim.Adam, {"lr": torch.tensor(0.01)}),
    "Adam, capturable": (torch.optim.Adam, {"capturable": True}),
    "AdamW, amsgrad": (torch.optim.AdamW, {"amsgrad": True}),
    "RMSprop, centered": (torch.optim.RMSprop, {"centered": True}),
    "RMSprop, momentum": (torch.optim.RMSprop, {"momentum": 0.9}),
    "Adagrad, lr decay": (torch.optim.Adagrad, {"lr_decay": 0.1}),
    "NAdam, decoupled": (torch.optim.NAdam, {"decoupled_weight_decay": True}),
    "RAdam, decoupled": (torch.optim.RAdam, {"decoupled_weight_decay": True}),
    "Adadelta, rho": (torch.optim.Adadelta, {"rho": 0.5, "lr": 1.0}),
    "ASGD, t0": (torch.optim.ASGD, {"t0": 1, "lr": 0.1}),
}


@each(OPTIONS)
def check_options_are_honoured(row):
    kind, options = row
    on_cpu = {key: value for key, value in options.items() if key != "capturable"}
    close(stepped(lambda p: kind(p, **options), "npu"), stepped(lambda p: kind(p, **on_cpu), "cpu"))


# The client's own, and torch's optimiser of the same rule.
FUSED = {
    "NpuFusedSGD": (
        lambda p: torch_npu.optim.NpuFusedSGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    ),
    "NpuFusedSGD, nesterov": (
        lambda p: torch_npu.optim.NpuFusedSGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    ),
    "NpuFusedAdam": (
        lambda p: torch_npu.optim.NpuFusedAdam(p, lr=0.01, weight_decay=0.01),
        lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.01),
    ),
    "NpuFusedAdam, amsgrad": (
        lambda p: torch_npu.optim.NpuFusedAdam(p, lr=0.01, amsgrad=True),
        lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    ),
    "NpuFusedAdamW": (lambda p: torch_npu.optim.NpuFusedAdamW(p, lr=0.01), lambda p: torch.optim.AdamW(p, lr=0.01)),
    "NpuFusedAdadelta": (lambda p: torch_npu.optim.NpuFusedAdadelta(p, lr=1.0), lambda p: torch.optim.Adadelta(p, lr=1.0)),
    "NpuFusedRMSprop": (
        lambda p: torch_npu.optim.NpuFusedRMSprop(p, lr=0.01, momentum=0.5),
        lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5),
    ),
    "NpuFusedRMSprop, centered": (
        lambda p: torch_npu.optim.NpuFusedRMSprop(p, lr=0.01, centered=True),
        lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True),
    ),
}


@each(FUSED)
def check_fused_steps_are_torchs(row):
    fused, plain = row
    close(stepped(fused, "npu"), stepped(plain, "cpu"))


# Rules that torch does not have: they go down on a parabola, and keep their state.
OWN = {
    "NpuFusedLamb": lambda p: torch_npu.optim.NpuFusedLamb(p, lr=0.05),
    "NpuFusedAdamP": lambda p: torch_npu.optim.NpuFusedAdamP(p, lr=0.05),
    "NpuFusedBertAdam": lambda p: torch_npu.optim.NpuFusedBertAdam(p, lr=0.05),
    "NpuFusedRMSpropTF": lambda p: torch_npu.optim.NpuFusedRMSpropTF(p, lr=0.05),
}


@each(OWN, {name: fused for name, (fused, _) in FUSED.items()})
def check_fused_optimisers_go_down(make):
    parameters = [start.clone().npu().requires_grad_() for start in START]
    optimiser, losses = make(parameters), []
    for _ in range(6):
        optimiser.zero_grad()
        loss = sum(p.square().sum() for p in parameters)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert min(losses[1:]) < losses[0] * 0.99, losses


def check_fused_norms_are_clipped():
    parameters = [start.clone().npu().requires_grad_() for start in START]
    optimiser = torch_npu.optim.NpuFusedSGD(parameters, lr=0.1)
    sum((p * p).sum() for p in parameters).backward()
    gradients = [p.grad.clone().cpu() for p in parameters]
    norm = optimiser.clip_grad_norm_fused_(max_norm=1.0)
    total = torch.sqrt(sum(g.square().sum() for g in gradients))
    torch.testing.assert_close(norm.cpu().reshape(()), total, rtol=1e-4, atol=1e-5)
    for parameter, gradient in zip(parameters, gradients):
        torch.testing.assert_close(parameter.grad.cpu(), gradient / total, rtol=1e-3, atol=1e-5)


def check_combined_tensors_are_one_memory():
    parts = [torch.ones(3).npu(), torch.full((2, 2), 2.0).npu()]
    whole = torch_npu.utils.npu_combine_tensors(parts)
    whole.mul_(2)
    assert parts[0].tolist() == [2] * 3 and parts[1].tolist() == [[4, 4], [4, 4]]


SCHEDULERS = {
    "StepLR": lambda o: torch.optim.lr_scheduler.StepLR(o, 2),
    "MultiStepLR": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [1, 3]),
    "ExponentialLR": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.5),
    "CosineAnnealingLR": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 4),
    "OneCycleLR": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.5, 10),
    "LinearLR": lambda o: torch.optim.lr_scheduler.LinearLR(o),
}


@each(SCHEDULERS)
def check_schedulers(make):
    def run(device):
        parameter = START[0].clone().to(device).requires_grad_()
        optimiser = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scheduler = make(optimiser)
        for gradients in GRADIENTS:
            parameter.grad = gradients[0].clone().to(device)
            optimiser.step()
            scheduler.step()
        return parameter.detach().cpu()

    torch.testing.assert_close(run("npu"), run("cpu"), rtol=1e-4, atol=1e-5)


@each({"norm 2": 2.0, "norm 1": 1.0, "largest": float("inf"), "norm 3": 3.0})
def check_norms_of_gradients_are_clipped(kind):
    def run(device):
        parameters = [start.clone().to(device).requires_grad_() for start in START]
        for parameter, gradient in zip(parameters, GRADIENTS[0]):
            parameter.grad = gradient.clone().to(device)
        total = torch.nn.utils.clip_grad_norm_(parameters, 0.5, kind)
        return [total.cpu(), *(parameter.grad.cpu() for parameter in parameters)]

    torch.testing.assert_close(run("npu"), run("cpu"), rtol=1e-4, atol=1e-5)


def check_averaged_models():
    def run(device):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3).to(device)
        averaged = torch.optim.swa_utils.AveragedModel(model)
        for turn in range(3):
            with torch.no_grad():
                model.weight.add_(turn)
            averaged.update_parameters(model)
        return averaged.module.weight.detach().cpu()

    torch.testing.assert_close(run("npu"), run("cpu"))
