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


def run_lstm(net, device, x, use):
    module, data = net.to(device), x.to(device).detach().requires_grad_()
    module.zero_grad()
    output, (h, c) = module(data)
    use(output, h, c).backward()
    return [t.detach().cpu() for t in (output, h, c, data.grad, *(p.grad for p in module.parameters()))]


@pytest.mark.parametrize("use", [
    lambda output, h, c: output.square().sum(), lambda output, h, c: h.square().sum(), lambda output, h, c: c.square().sum(),
    lambda output, h, c: output[:, -1].sum() + c.sin().sum(),
])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_of_each_output_of_an_lstm(use, dtype):
    torch.manual_seed(0)
    net = nn.LSTM(4, 7, batch_first=True, bidirectional=True, dtype=dtype)
    x = torch.randn(3, 6, 4, dtype=dtype)
    for actual, expected in zip(run_lstm(net, "npu", x, use), run_lstm(net, "cpu", x, use)):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_an_unbatched_sequence_and_given_states():
    torch.manual_seed(0)
    net, x, state = nn.LSTM(4, 5, num_layers=2), torch.randn(6, 4), (torch.randn(2, 5), torch.randn(2, 5))
    expected = net(x, state)
    actual = net.npu()(x.npu(), tuple(s.npu() for s in state))
    torch.testing.assert_close(actual[0].detach().cpu(), expected[0].detach())
    torch.testing.assert_close(actual[1][1].detach().cpu(), expected[1][1].detach())


def test_a_gradient_of_a_gradient():
    torch.manual_seed(0)
    net, x = nn.LSTM(4, 5), torch.randn(6, 3, 4)

    def run(device):
        module, data = net.to(device), x.to(device).requires_grad_()
        (grad,) = torch.autograd.grad(module(data)[0].square().sum(), data, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), data)[0].cpu()

    torch.testing.assert_close(run("npu"), run("cpu"), rtol=1e-4, atol=1e-5)


def test_shapes_that_do_not_fit_are_refused_in_torch_s_words():
    net = nn.LSTM(4, 5).npu()
    with pytest.raises(RuntimeError, match="input.size"):
        net(torch.randn(6, 3, 9, device="npu"))


def test_lstm_under_inference_mode_and_autocast():
    torch.manual_seed(0)
    net, x = nn.LSTM(4, 5), torch.randn(6, 3, 4)
    expected = net(x)[0].detach()
    net.npu()
    with torch.inference_mode():
        torch.testing.assert_close(net(x.npu())[0].cpu(), expected)
    with torch.autocast("npu", dtype=torch.bfloat16):
        torch.testing.assert_close(net(x.npu())[0].float().detach().cpu(), expected, rtol=5e-2, atol=5e-2)
