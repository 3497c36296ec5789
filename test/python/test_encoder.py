"""The fast path of torch.nn's transformer modules in evaluation, dense and nested, against the CPU."""

import pytest
import torch
from torch import nn

PADDING = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])


def close(ours, expected):
    torch.testing.assert_close(ours.cpu(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("padding", [None, PADDING], ids=["whole", "padded"])
def test_encoder(norm_first, activation, padding):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, activation=activation, batch_first=True, norm_first=norm_first)
    encoder, x = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).eval(), torch.randn(2, 5, 16)
    with torch.inference_mode():
        expected = encoder(x, src_key_padding_mask=padding)
        ours = encoder.npu()(x.npu(), src_key_padding_mask=None if padding is None else padding.npu())
    close(ours, expected)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("padding", [None, PADDING], ids=["whole", "padded"])
def test_attention(need_weights, padding):
    torch.manual_seed(0)
    attention, x = nn.MultiheadAttention(16, 4, batch_first=True).eval(), torch.randn(2, 5, 16)
    with torch.inference_mode():
        expected = attention(x, x, x, key_padding_mask=padding, need_weights=need_weights)
        attention, x = attention.npu(), x.npu()
        ours = attention(x, x, x, key_padding_mask=None if padding is None else padding.npu(), need_weights=need_weights)
    close(ours[0], expected[0])
    if need_weights:
        close(ours[1], expected[1])


@pytest.mark.parametrize("mask_type", [0, 1, 2])
def test_masked_softmax_hides_and_leaves_zeros(mask_type):
    scores = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    shape = {0: (4, 4), 1: (2, 4), 2: (2, 3, 4, 4)}[mask_type]
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) > 0.5
    mask[0] = True  # a row without anything to see
    close(torch._masked_softmax(scores.npu(), mask.npu(), 3, mask_type), torch._masked_softmax(scores, mask, 3, mask_type).nan_to_num(0.0))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_layer_norm_over_several_dimensions():
    torch.manual_seed(0)
    parts = [torch.randn(2, 4, 3), torch.randn(5, 4, 3)]

    def run(device):
        leaves = [part.to(device).requires_grad_() for part in parts]
        weight, bias = (torch.arange(12.0, device=device).view(4, 3).requires_grad_() for _ in range(2))
        out = nn.functional.layer_norm(torch.nested.as_nested_tensor(leaves), (4, 3), weight, bias).to_padded_tensor(0.0)
        out.square().sum().backward()
        return [out.detach(), weight.grad, bias.grad, *(leaf.grad for leaf in leaves)]

    for npu, cpu in zip(run("npu"), run("cpu")):
        torch.testing.assert_close(npu.cpu(), cpu, rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError, match="not the last dimensions of all its tensors"):
        nn.functional.layer_norm(torch.nested.nested_tensor([part.npu() for part in parts]), (2, 4, 3), *torch.ones(2, 2, 4, 3).npu())


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_layer_norm_and_padding():
    rows = [torch.randn(n, 8, generator=torch.Generator().manual_seed(n)) for n in (2, 4, 1)]

    def run(device, layout):
        nested = torch.nested.nested_tensor([r.to(device) for r in rows], layout=layout, requires_grad=True)
        out = nn.functional.layer_norm(nested, (8,), torch.arange(8.0, device=device), torch.ones(8, device=device)).to_padded_tensor(0.0)
        out.square().sum().backward()
        return out, nested.grad.to_padded_tensor(0.0)

    for layout in (torch.strided, torch.jagged):
        for ours, expected in zip(run("npu", layout), run("cpu", layout)):
            close(ours, expected)
