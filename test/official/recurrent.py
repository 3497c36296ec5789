"""Recurrent layers, which the client sends as operators of the interface before aclnn: outputs, states and gradients."""

import copy

import torch
from rows import each

import torch_npu  # noqa: F401

STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 7, 6
# (class, what it is made with)
NETS = {
    "LSTM": (torch.nn.LSTM, {}),
    "LSTM without biases": (torch.nn.LSTM, {"bias": False}),
    "LSTM of two layers": (torch.nn.LSTM, {"num_layers": 2}),
    "LSTM of three layers, batch first": (torch.nn.LSTM, {"num_layers": 3, "batch_first": True}),
    "LSTM of both directions": (torch.nn.LSTM, {"bidirectional": True}),
    "LSTM of both directions, two layers": (torch.nn.LSTM, {"bidirectional": True, "num_layers": 2}),
    "GRU": (torch.nn.GRU, {}),
    "GRU of two layers, batch first": (torch.nn.GRU, {"num_layers": 2, "batch_first": True}),
    "GRU of both directions": (torch.nn.GRU, {"bidirectional": True}),
}
CELLS = {"LSTMCell": torch.nn.LSTMCell, "GRUCell": torch.nn.GRUCell}


def pair(make):
    """The same module on the CPU and on the card."""
    torch.manual_seed(0)
    module = make()
    return module, copy.deepcopy(module).npu()


def flat(result):
    return [result] if isinstance(result, torch.Tensor) else [t for part in result for t in flat(part)]


def results(module, *inputs):
    """What it gives, and the gradients of inputs and parameters."""
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    outputs = flat(module(leaves[0], *(tuple(leaves[1:]),) if len(leaves) > 2 else leaves[1:]))
    sum((o * torch.arange(o.numel(), device=o.device).view(o.shape).cos()).sum() for o in outputs).backward()
    return [t.cpu() for t in (*outputs, *(t.grad for t in leaves), *(p.grad for p in module.parameters()))]


def same(own, other, *inputs):
    for got, expected in zip(results(other, *(t.npu() for t in inputs)), results(own, *inputs), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@each(NETS)
def check_a_network_is_the_cpus(row):
    kind, options = row
    own, other = pair(lambda: kind(INPUTS, HIDDEN, **options))
    parts = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    states = [torch.randn(parts, BATCH, HIDDEN) for _ in range(2 if kind is torch.nn.LSTM else 1)]
    x = torch.randn(BATCH, STEPS, INPUTS) if options.get("batch_first") else torch.randn(STEPS, BATCH, INPUTS)
    same(own, other, x, *states)
    same(own, other, x)


@each(CELLS)
def check_a_cell_is_the_cpus(kind):
    own, other = pair(lambda: kind(INPUTS, HIDDEN))
    same(own, other, torch.randn(BATCH, INPUTS), *[torch.randn(BATCH, HIDDEN) for _ in range(2 if kind is torch.nn.LSTMCell else 1)])


def check_evaluation_keeps_no_gradients():
    own, other = pair(lambda: torch.nn.LSTM(INPUTS, HIDDEN).eval())
    x = torch.randn(STEPS, BATCH, INPUTS)
    with torch.no_grad():
        for got, expected in zip(flat(other(x.npu())), flat(own(x)), strict=True):
            torch.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-5)


def check_half_precision_is_near():
    own, other = pair(lambda: torch.nn.LSTM(INPUTS, HIDDEN))
    x = torch.randn(STEPS, BATCH, INPUTS)
    torch.testing.assert_close(other.half()(x.npu().half())[0].float().cpu(), own(x)[0], rtol=1e-2, atol=1e-2)


def check_training_falls():
    torch.manual_seed(0)
    net, head = torch.nn.LSTM(INPUTS, HIDDEN).npu(), torch.nn.Linear(HIDDEN, 1).npu()
    optimiser = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=0.05)
    x, y = torch.randn(STEPS, BATCH, INPUTS).npu(), torch.randn(BATCH, 1).npu()
    losses = []
    for _ in range(20):
        optimiser.zero_grad()
        loss = torch.nn.functional.mse_loss(head(net(x)[0][-1]), y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0], losses
