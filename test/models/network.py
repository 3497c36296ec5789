"""What the sweep knows about a network, and how one is trained: the same start and the same data on every device."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

BATCHES = 4  # seen again and again, so that there is something to learn

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


def _perturb(model: nn.Module, relative: float) -> None:
    generator = torch.Generator().manual_seed(99)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + relative * torch.randn(parameter.shape, generator=generator))


class Training:
    """One network in training on one device. amp: autocast to this type, with a scaled loss for float16."""

    def __init__(self, network: Network, device: str, amp: torch.dtype | None = None, perturbation: float = 0.0):
        torch.manual_seed(0)
        model = network.make()
        if perturbation:
            _perturb(model, perturbation)
        self.model = model.to(device).train()
        self.device, self.amp = device, amp
        self.parts = [(network.optimizer(parameters, lr=network.lr), loss) for parameters, loss in network.parts(self.model)]
        # From the default of 65,536 the scale takes more steps to come down than a short run can spare.
        self.scaler = torch.amp.GradScaler(device, init_scale=1024.0, enabled=amp is torch.float16)
        data = torch.Generator().manual_seed(1)
        self.batches = [network.batch(data) for _ in range(BATCHES)]
        self.losses: list[float] = []
        self.seconds: list[float] = []

    def step(self) -> None:
        batch = tuple(t.to(self.device) for t in self.batches[len(self.losses) % BATCHES])
        begin = time.perf_counter()
        total = 0.0
        for optimizer, loss_function in self.parts:
            for every, _ in self.parts:
                every.zero_grad()
            with torch.autocast(self.device, dtype=self.amp or torch.float16, enabled=self.amp is not None):
                loss = loss_function(self.model, batch)
            self.scaler.scale(loss).backward()
            self.scaler.step(optimizer)
            total += loss.item()
        self.scaler.update()
        self.losses.append(total)
        self.seconds.append(time.perf_counter() - begin)


def train(*trainings: Training, steps: int) -> None:
    """Steps of all of them in turn, so that their times are comparable on a busy machine."""
    for _ in range(steps):
        for training in trainings:
            training.step()
