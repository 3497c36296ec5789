"""Training steps on the card and on the CPU: the losses of three steps, and the weights afterwards. Called in the worker process."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import nn

from torch_npu.verify.networks import network
from torch_npu.verify.outcome import Outcome
from torch_npu.verify.values import Difference, measure, worst

STEPS = 3
# name: network, autocast's type, fused optimiser
PROGRAMS: dict[str, tuple[str, torch.dtype | None, bool]] = {
    "mlp": ("mlp", None, False), "cnn": ("cnn", None, False), "gpt": ("gpt", None, False), "llama": ("llama", None, True),
    "vit": ("vit", None, False), "mlp.float16": ("mlp", torch.float16, False), "cnn.float16": ("cnn", torch.float16, False),
    "gpt.bfloat16": ("gpt", torch.bfloat16, False), "gpt.fused": ("gpt", None, True), "llama.bfloat16": ("llama", torch.bfloat16, True),
}


def fused(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, fused=True)


def train(net: nn.Module, x: torch.Tensor, target: torch.Tensor, make_optimiser, autocast: torch.dtype | None) -> list[torch.Tensor]:
    """The losses of the steps, then every weight."""
    device = x.device.type
    optimiser = make_optimiser(net.parameters())
    scaler = torch.amp.GradScaler(device, enabled=autocast is torch.float16 and device == "npu", init_scale=1024.0)
    losses = []
    for _ in range(STEPS):
        with torch.autocast(device, autocast, enabled=autocast is not None and device == "npu"):
            loss = F.cross_entropy(net(x), target)
        scaler.scale(loss).backward()
        scaler.unscale_(optimiser)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimiser)
        scaler.update()
        optimiser.zero_grad()
        losses.append(loss.detach().float().cpu())
    return losses + [p.detach().float().cpu() for p in net.parameters()]


def run(name: str, outcome: Outcome) -> None:
    """The CPU's steps are those of float32: lower precision on the card is compared with its own tolerance."""
    kind, autocast, is_fused = PROGRAMS[name]
    torch.manual_seed(3)
    net, x, target, make_optimiser = network(kind)
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0  # two devices draw different numbers
    expected = train(copy.deepcopy(net), x, target, fused if is_fused else make_optimiser, None)
    with outcome.attempt(f"{STEPS} steps", f"{kind}, {'float32' if autocast is None else f'autocast {autocast}'.replace('torch.', '')}"):
        actual = train(net.to("npu"), x.to("npu"), target.to("npu"), fused if is_fused else make_optimiser, autocast)
        differences = [measure(a, e, autocast or torch.float32, 8) for a, e in zip(actual[:STEPS], expected)]
        weights = [weight_difference(a, e) for a, e in zip(actual[STEPS:], expected[STEPS:])]
        outcome.compared(worst(differences + weights))


def weight_difference(actual: torch.Tensor, expected: torch.Tensor) -> Difference:
    """A step of Adam moves a weight whose gradient is nearly none by the learning rate in either direction: most weights must agree."""
    off = (actual - expected).abs() > 2e-2 * (1 + expected.abs())
    if not actual.isfinite().all() or off.float().mean() > 0.02:
        return Difference("wrong", text=f"{int(off.sum())} of {off.numel()} weights differ from the CPU's, shape {list(actual.shape)}")
    return Difference()
