"""torch.nn.LSTM, GRU and RNN on the npu: outputs, states and gradients of the CPU."""

import pytest
import torch
from torch import nn


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRU, nn.RNN])
def test_like_the_cpu(cls, bidirectional, bias):
    torch.manual_seed(0)
    net = cls(4, 5, num_layers=2, bidirectional=bidirectional, bias=bias)
    x = torch.randn(6, 3, 4)

    def run(device):
        module, data = net.to(device), x.to(device).requires_grad_()
        module.zero_grad()
        output, state = module(data)
        states = state if isinstance(state, tuple) else (state,)
        (output.square().sum() + sum(s.sum() for s in states)).backward()
        return [t.detach().cpu() for t in (output, *states, data.grad, *(p.grad for p in module.parameters()))]

    for actual, expected in zip(run("npu"), run("cpu")):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRU])
def test_packed_sequences(cls):
    torch.manual_seed(0)
    net = cls(4, 5, batch_first=True)
    x, lengths = torch.randn(3, 6, 4), torch.tensor([6, 4, 1])

    def run(device):
        packed = nn.utils.rnn.pack_padded_sequence(x.to(device), lengths, batch_first=True)
        output, _ = net.to(device)(packed)
        return nn.utils.rnn.pad_packed_sequence(output, batch_first=True)[0].detach().cpu()

    torch.testing.assert_close(run("npu"), run("cpu"))


@pytest.mark.parametrize("cls", [nn.LSTMCell, nn.GRUCell])
def test_cells(cls):
    torch.manual_seed(0)
    cell, x = cls(4, 5), torch.randn(3, 4)
    expected = cell(x)
    actual = cell.npu()(x.npu())
    pairs = zip(actual, expected) if isinstance(expected, tuple) else [(actual, expected)]
    for a, e in pairs:
        torch.testing.assert_close(a.detach().cpu(), e.detach())
