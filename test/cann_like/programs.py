"""Optimisers and training steps on npu against the CPU, for a device library without the names that only softnpu has."""

from __future__ import annotations

import copy
import json
import sys
import warnings
from collections.abc import Callable, Iterator

import torch
from torch import nn

import torch_npu
from torch_npu import optim

SHAPES = [(4, 3), (5,), (2, 3, 2), ()]


def parameters(device: str) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator).to(device)) for shape in SHAPES]


def steps(make: Callable, device: str) -> list[torch.Tensor]:
    """The parameters after three steps with the same gradients on every device."""
    params = parameters(device)
    optimizer = make(params)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator).to(device)
        optimizer.step()
    return [p.detach().cpu() for p in params]


def of_torch() -> Iterator[tuple[str, Callable[[str], list[torch.Tensor]]]]:
    fused = {torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad}
    options = {torch.optim.SGD: [{"momentum": 0.9, "nesterov": True}, {}], torch.optim.Adam: [{}, {"amsgrad": True, "weight_decay": 0.1}],
               torch.optim.AdamW: [{}, {"maximize": True}], torch.optim.RMSprop: [{"centered": True, "momentum": 0.9}]}
    for cls in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.Adamax,
                torch.optim.NAdam, torch.optim.RAdam, torch.optim.RMSprop, torch.optim.Rprop, torch.optim.ASGD):
        for form in ("foreach", "fused") if cls in fused else ("foreach",):
            for extra in options.get(cls, [{}]):
                def run(device, cls=cls, form=form, extra=extra):
                    on_npu = {form: True} if device == "npu" else {"foreach": False}
                    return steps(lambda params: cls(params, lr=0.05, **extra, **on_npu), device)
                yield f"torch.optim.{cls.__name__} {form} {extra}", run


def of_torch_npu() -> Iterator[tuple[str, Callable[[str], list[torch.Tensor]]]]:
    """On CPU tensors these classes compute the same rules with torch's operators."""
    options = {"NpuFusedAdam": [{}, {"amsgrad": True}], "NpuFusedSGD": [{"lr": 0.1}, {"lr": 0.1, "momentum": 0.9}],
               "NpuFusedRMSprop": [{}, {"centered": True, "momentum": 0.9, "weight_decay": 0.1}],
               "NpuFusedRMSpropTF": [{}, {"centered": True, "momentum": 0.9, "weight_decay": 0.1}],
               "NpuFusedLamb": [{"weight_decay": 0.1}, {"use_global_grad_norm": True}],
               "NpuFusedAdamP": [{"weight_decay": 0.1, "delta": 10.0}, {}]}
    for name in optim.__all__:
        if name == "NpuFusedOptimizerBase":
            continue
        for extra in options.get(name, [{}]):
            yield f"torch_npu.optim.{name} {extra}", lambda device, name=name, extra=extra: steps(
                lambda params: getattr(optim, name)(params, **extra), device)


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.layers = nn.EmbeddingBag(20, 6, mode="mean"), nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 4))

    def forward(self, words):
        offsets = torch.arange(0, words.numel(), words.shape[1], device=words.device)
        rows, columns = torch.tril_indices(4, 4, device=words.device)
        y = self.layers(self.bag(words.flatten(), offsets)) @ torch.ones(4, 4, device=words.device)
        mask = torch.zeros(4, 4, device=words.device).index_put((rows, columns), torch.ones(len(rows), device=words.device))
        holes = torch.where(y.detach() > y.detach().mean(), float("nan"), y @ mask)
        return torch.nan_to_num(holes, 0.5, 1.0, -1.0) + y


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                                    nn.Linear(64, 4))

    def forward(self, pixels):
        return self.layers(pixels)


def training(model: nn.Module, data: torch.Tensor, make: Callable) -> Callable[[str], list[torch.Tensor]]:
    def run(device):
        copied = copy.deepcopy(model).to(device)
        optimizer, target = make(copied.parameters(), device), torch.arange(len(data), device=device) % 4
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(copied(data.to(device)), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().cpu())
        return [*losses, *(p.detach().cpu() for p in copied.parameters())]
    return run


def models() -> Iterator[tuple[str, Callable[[str], list[torch.Tensor]]]]:
    torch.manual_seed(0)
    words, pixels = torch.randint(20, (8, 5)), torch.randn(8, 3, 8, 8)
    for form in ("fused", "foreach"):
        yield f"EmbeddingBag, MLP, nan_to_num and tril_indices, AdamW {form}", training(
            Perceptron(), words, lambda p, device, form=form: torch.optim.AdamW(p, lr=0.01, **{form: device == "npu"}))
        yield f"convolutions, SGD {form}", training(
            Convolutional(), pixels, lambda p, device, form=form: torch.optim.SGD(p, lr=0.01, momentum=0.9, **{form: device == "npu"}))


def in_doubles() -> Iterator[tuple[str, Callable[[str], list[torch.Tensor]]]]:
    """An operator that needs an extension for some types only."""
    x = torch.tensor([float("nan"), 1, float("inf")], dtype=torch.float64)
    yield "nan_to_num of float64", lambda device: [torch.nan_to_num(x.to(device), 2.0).cpu()]
    yield "tril_indices and triu_indices", lambda device: [f(5, 3, device=device).cpu() for f in (torch.tril_indices, torch.triu_indices)]


def main() -> int:
    warnings.simplefilter("ignore")
    failures, count = [], 0
    for group in (in_doubles, of_torch, of_torch_npu, models):
        for name, run in group():
            count += 1
            try:
                torch.testing.assert_close(run("npu"), run("cpu"), rtol=1e-4, atol=1e-5)
            except Exception as error:
                failures.append(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
    json.dump({"programs": count, "failures": failures, "withdrawn": len(torch_npu._C.withdrawn_operators()),
               "fallback": torch_npu.utils.fallback_counts()}, sys.stdout)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
