"""What the sweep knows about a network, and how one is trained: the same start and the same data on every device."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Network:
    """`make` builds the model, `batch` draws one batch on the CPU, `loss` turns (model, batch) into a number.

    A network with several optimisers (a GAN) gives several losses; each trains the submodule of that name.
    """

    name: str
    make: Callable[[], nn.Module]
    batch: Callable[[torch.Generator], tuple]
    loss: Callable | dict[str, Callable]
    optimizer: Callable = torch.optim.AdamW
    lr: float = 1e-3

    def parts(self, model):
        """(parameters, loss) of each optimiser."""
        if callable(self.loss):
            return [(list(model.parameters()), self.loss)]
        return [(list(model.get_submodule(name).parameters()), loss) for name, loss in self.loss.items()]


@dataclass
class Run:
    losses: list[float]
    seconds: float  # of the median step
    model: nn.Module


def _perturb(model: nn.Module, relative: float) -> None:
    generator = torch.Generator().manual_seed(99)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + relative * torch.randn(parameter.shape, generator=generator))


def train(network: Network, device: str, steps: int = 30, amp: torch.dtype | None = None, perturbation: float = 0.0) -> Run:
    """amp: autocast to this dtype, with a scaled loss for float16."""
    torch.manual_seed(0)
    model = network.make()
    if perturbation:
        _perturb(model, perturbation)
    model = model.to(device).train()
    parts = [(network.optimizer(parameters, lr=network.lr), loss) for parameters, loss in network.parts(model)]
    scaler = torch.amp.GradScaler(device, enabled=amp is torch.float16)
    data = torch.Generator().manual_seed(1)
    losses, times = [], []
    for _ in range(steps):
        batch = tuple(t.to(device) for t in network.batch(data))
        begin = time.perf_counter()
        total = 0.0
        for optimizer, loss_function in parts:
            for every, _ in parts:
                every.zero_grad()
            with torch.autocast(device, dtype=amp or torch.float16, enabled=amp is not None):
                loss = loss_function(model, batch)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            total += loss.item()
        scaler.update()
        losses.append(total)
        times.append(time.perf_counter() - begin)
    return Run(losses, sorted(times)[len(times) // 2], model)
