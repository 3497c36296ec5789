"""torch_npu.contrib.module: each module against its plain-torch meaning, forward and backward."""

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torch_npu import contrib
from torch_npu.contrib import module as modules


def rand(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def same(module, reference, *inputs, rtol=1e-4, atol=1e-5):
    """The module on the npu and a function of (module, inputs) on the CPU: values, gradients of inputs and of parameters."""
    inputs = [t.clone().requires_grad_() for t in inputs]
    module = module.cpu()
    expected = reference(module, *inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    leaves = [*inputs, *(p for p in module.parameters() if p.requires_grad)]
    seeds = [rand(*e.shape, seed=8) for e in expected]
    wanted = torch.autograd.grad(expected, leaves, seeds, allow_unused=True)
    module = module.npu()
    moved = [t.detach().npu().requires_grad_() for t in inputs]
    actual = module(*moved)
    actual = actual if isinstance(actual, tuple) else (actual,)
    for a, e in zip(actual, expected):
        torch.testing.assert_close(a.detach().cpu(), e.detach(), rtol=rtol, atol=atol)
    leaves = [*moved, *(p for p in module.parameters() if p.requires_grad)]
    found = torch.autograd.grad(actual, leaves, [s.npu() for s in seeds], allow_unused=True)
    for a, e in zip(found, wanted):
        assert (a is None) == (e is None)
        if a is not None:
            torch.testing.assert_close(a.cpu(), e, rtol=rtol, atol=atol)


def test_every_module_is_reached_from_contrib():
    assert len(modules.__all__) == 27
    for name in modules.__all__:
        assert getattr(contrib, name) is getattr(modules, name)
    for name in ("Nothing", "_Nothing", "__nothing__", "_nn"):
        with pytest.raises(AttributeError, match=f"module 'torch_npu.contrib' has no attribute '{name}'"):
            getattr(contrib, name)
    assert contrib.__all__ == sorted([*modules.__all__, *contrib.function.__all__]) and not hasattr(contrib, "_quantized")


@pytest.mark.parametrize("cls, function", [(modules.Mish, F.mish), (modules.SiLU, F.silu), (modules.Swish, F.silu)])
def test_activations(cls, function):
    same(cls(), lambda m, x: function(x), rand(3, 4))


@pytest.mark.parametrize("cls, plain, shape", [(modules.FastBatchNorm1d, nn.BatchNorm1d, (4, 3, 5)),
                                               (modules.FastBatchNorm2d, nn.BatchNorm2d, (4, 3, 5, 5)),
                                               (modules.FastBatchNorm3d, nn.BatchNorm3d, (4, 3, 2, 5, 5))])
def test_batch_norm(cls, plain, shape):
    fast, reference = cls(3), plain(3)
    assert fast.num_batches_tracked.dtype == torch.int32
    same(fast, lambda m, x: F.batch_norm(x, None, None, m.weight, m.bias, True), rand(*shape))
    reference(rand(*shape))
    torch.testing.assert_close(fast.cpu().running_var, reference.running_var)
    reference.load_state_dict(fast.state_dict())


def test_sync_batch_norm():
    net = modules.FastSyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Conv2d(1, 3, 1), nn.BatchNorm2d(3)))
    assert type(net[1]) is modules.FastSyncBatchNorm and net[1].num_batches_tracked.dtype == torch.int32
    # in one process, plain batch norm
    same(modules.FastSyncBatchNorm(3), lambda m, x: F.batch_norm(x, None, None, m.weight, m.bias, True), rand(4, 3, 5, 5))


def test_bidirectional_lstm():
    plain = nn.LSTM(4, 3, bidirectional=True)

    def reference(m, x):
        for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
            plain.get_parameter(name).data = m.fw_rnn.get_parameter(name).data
            plain.get_parameter(name + "_reverse").data = m.bw_rnn.get_parameter(name).data
        return plain(x)[0]

    module = modules.BiLSTM(4, 3)
    x = rand(5, 2, 4)
    torch.testing.assert_close(module.npu()(x.npu()).cpu(), reference(module.cpu(), x), rtol=1e-4, atol=1e-5)


def test_batch_norm_without_statistics_counts_nothing():
    assert modules.FastBatchNorm2d(3, track_running_stats=False).num_batches_tracked is None
    net = modules.FastSyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False), nn.ReLU()))
    assert type(net[0]) is modules.FastSyncBatchNorm and net[0].num_batches_tracked is None and type(net[1]) is nn.ReLU


def test_channel_shuffle_divides_channels():
    shuffle = modules.ChannelShuffle(4)
    a, b = rand(1, 3, 1, 1), rand(1, 3, 1, 1, seed=1)
    assert len(shuffle(a, b)) == 2 and torch.equal(torch.cat(shuffle(a, b), 1), F.channel_shuffle(torch.cat([a, b], 1), 2))
    assert torch.equal(modules.ChannelShuffle(4, 3, False)(a, b[:, :3]), F.channel_shuffle(torch.cat([a, b], 1), 3))
    assert modules.ChannelShuffle(4, 1, False)(a, b[:, :2]).shape == (1, 5, 1, 1)
    for groups, split in ((2, False), (1, True)):
        with pytest.raises(ValueError, match="5 channels cannot be divided by 2"):
            modules.ChannelShuffle(4, groups, split)(a, b[:, :2])
    with pytest.raises(ValueError, match="6 channels cannot be divided by 4"):
        modules.ChannelShuffle(4, 4, False)(a, b)


@pytest.mark.parametrize("split", [True, False])
def test_channel_shuffle(split):
    def reference(m, a, b):
        out = F.channel_shuffle(torch.cat([a, b], 1), 2)
        return tuple(out.chunk(2, 1)) if split else out

    same(modules.ChannelShuffle(4, 2, split), reference, rand(2, 4, 3, 3), rand(2, 4, 3, 3, seed=1))
    with pytest.raises(ValueError, match="cannot be divided"):
        modules.ChannelShuffle(4, 3)(rand(1, 2, 1, 1), rand(1, 2, 1, 1))


def test_focus():
    def reference(m, x):
        parts = torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1)
        return F.silu(F.batch_norm(F.conv2d(parts, m.conv.weight, padding=1), None, None, m.bn.weight, m.bn.bias, True))

    same(modules.Focus(2, 3, k=3), reference, rand(2, 2, 8, 8), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("options, padding", [({}, (0, 0)), ({"k": 3}, (1, 1)), ({"k": (3, 5), "s": 2}, (1, 2)), ({"k": 3, "p": 0}, (0, 0)),
                                              ({"k": 1, "p": 2, "g": 2}, (2, 2))], ids=str)
def test_focus_pads_by_half_a_kernel(options, padding):
    focus = modules.Focus(2, 4, act=False, **options).eval()
    x = rand(1, 2, 8, 12)
    parts = torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1)
    expected = F.conv2d(parts, focus.conv.weight, stride=options.get("s", 1), padding=padding, groups=options.get("g", 1))
    torch.testing.assert_close(focus(x), expected / (1 + 1e-5) ** 0.5)
    assert focus.conv.bias is None
    relu = nn.ReLU()
    assert modules.Focus(2, 4, act=relu).act is relu and type(modules.Focus(2, 4).act) is nn.SiLU


def test_label_smoothing_of_a_thousand_classes():
    logits, target = rand(2, 1000), torch.tensor([7, 999])
    loss = modules.LabelSmoothingCrossEntropy()(logits.npu(), target.npu())
    torch.testing.assert_close(loss.cpu(), F.cross_entropy(logits, target))


def test_label_smoothing_of_several_dimensions():
    """Classes are the last one."""
    logits, target = rand(2, 3, 5), torch.tensor([[0, 4, 2], [1, 1, 3]])
    smooth = modules.LabelSmoothingCrossEntropy(5, 0.2)
    loss = smooth(logits.npu(), target.npu()).cpu()
    torch.testing.assert_close(loss, smooth(logits.flatten(0, 1).npu(), target.flatten().npu()).cpu())
    weights = torch.full((2, 3, 5), 0.05).scatter(2, target.unsqueeze(2), 0.8)
    torch.testing.assert_close(loss, -(weights * torch.log_softmax(logits, -1)).sum(-1).mean())


def test_label_smoothing():
    target = torch.tensor([0, 3, 2])
    smooth = modules.LabelSmoothingCrossEntropy(5, 0.2)
    logits = rand(3, 5).npu().requires_grad_()
    expected = -(torch.full((3, 5), 0.05).scatter(1, target[:, None], 0.8) * torch.log_softmax(logits.detach().cpu(), -1)).sum(-1).mean()
    loss = smooth(logits, target.npu())
    torch.testing.assert_close(loss.detach().cpu(), expected)
    loss.backward()
    plain = F.cross_entropy(logits.detach().cpu(), target)
    torch.testing.assert_close(modules.LabelSmoothingCrossEntropy(5)(logits, target.npu()).detach().cpu(), plain)


@pytest.mark.parametrize("cls", [modules.NpuCachedDropout, modules.NpuFairseqDropout, modules.NpuPreGenDropout,
                                 modules.DropoutWithByteMask])
def test_dropout(cls):
    module = cls(0.25)
    x = torch.ones(4000, device="npu")
    out = module(x)
    assert sorted(out.unique().tolist()) == pytest.approx([0.0, 1 / 0.75])
    assert abs((out == 0).float().mean().item() - 0.25) < 0.04
    assert torch.equal(module.eval()(x), x)
    if hasattr(cls, "enable_dropout_ensemble"):
        cls.enable_dropout_ensemble(nn.Sequential(module))


def test_dropout_with_byte_mask_is_torchs():
    x = torch.ones(2000, device="npu")
    assert modules.DropoutWithByteMask().p == nn.Dropout().p and modules.DropoutWithByteMask(0.5, True)(x) is x
    assert not torch.equal(modules.DropoutWithByteMask()(torch.ones_like(x)), torch.ones_like(x))
    assert modules.NpuCachedDropout(0.1, "block").module_name == "block" and modules.NpuCachedDropout(0.1).module_name is None


def test_drop_path_keeps_the_mean():
    x = torch.ones(4000, 2, device="npu")
    out = modules.NpuDropPath(0.2)(x)
    assert sorted(out.unique().tolist()) == pytest.approx([0.0, 1.25]) and abs(out.mean().item() - 1.0) < 0.05
    for drop_prob in (None, 0.0):
        assert modules.NpuDropPath(drop_prob)(x) is x


def test_drop_path():
    module = modules.NpuDropPath(0.5)
    out = module(torch.ones(200, 3, 2, device="npu"))
    per_sample = out.flatten(1)[:, :1]
    assert torch.equal(out.flatten(1), per_sample.expand(-1, 6))
    assert sorted(per_sample.unique().tolist()) == [0.0, 2.0]
    assert torch.equal(module.eval()(out), out)
    modules.NpuDropPath.enable_droppath_ensemble(module)


def test_prefetcher_gives_every_batch_on_the_card():
    batches = [(torch.full((3,), float(i)).pin_memory(), torch.tensor([i])) for i in range(4)]
    prefetcher = modules.Prefetcher(batches)
    seen = []
    data, target = prefetcher.next()
    while data is not None:
        assert data.device.type == target.device.type == "npu"
        seen.append((data[0].item(), target.item()))
        data, target = prefetcher.next()
    assert seen == [(float(i), i) for i in range(4)]


@pytest.mark.parametrize("attn_mask", [None, torch.ones(5, 5).triu(1).bool(), torch.arange(25.0).view(5, 5) / 10],
                         ids=["none", "bool", "added"])
@pytest.mark.parametrize("key_padding", [False, True])
def test_multihead_attention(key_padding, attn_mask):
    ours, plain = modules.MultiheadAttention(8, 2), nn.MultiheadAttention(8, 2, batch_first=True)
    with torch.no_grad():
        plain.in_proj_weight.copy_(torch.cat([ours.q_proj.weight, ours.k_proj.weight, ours.v_proj.weight]))
        plain.in_proj_bias.zero_()
        plain.out_proj.weight.copy_(ours.out_proj.weight)
        plain.out_proj.bias.zero_()
    x = rand(2, 5, 8)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2]) if key_padding else None
    added = None if padding is None else torch.zeros(2, 5).masked_fill(padding, -torch.inf)  # of the type of attn_mask, as torch wants
    expected, weights = plain(x, x, x, key_padding_mask=padding if attn_mask is None or attn_mask.dtype is torch.bool else added,
                              attn_mask=attn_mask)
    flat = x.reshape(10, 8).npu()
    out, found = ours.npu()(flat, flat, flat, 2, 5, 5, key_padding_mask=None if padding is None else padding.npu(),
                            attn_mask=None if attn_mask is None else attn_mask.npu())
    torch.testing.assert_close(out.view(2, 5, 8).cpu(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.cpu(), weights, rtol=1e-4, atol=1e-5)
    with pytest.raises(NotImplementedError, match="incremental_state"):
        ours(flat, flat, flat, 2, 5, 5, incremental_state={})


def copied(ours, **options):
    """torch's module with the weights of ours."""
    plain = nn.MultiheadAttention(8, 2, batch_first=True, **options)
    with torch.no_grad():
        for name in ("q", "k", "v"):
            getattr(plain, f"{name}_proj_weight").copy_(getattr(ours, f"{name}_proj").weight)
        plain.out_proj.weight.copy_(ours.out_proj.weight)
    return plain


@pytest.mark.parametrize("bias", [True, False])
def test_multihead_attention_of_another_sequence(bias):
    """Keys and values of other sizes and another length than queries; weights by head, or none."""
    ours = modules.MultiheadAttention(8, 2, kdim=6, vdim=4, bias=bias, encoder_decoder_attention=True)
    plain = copied(ours, kdim=6, vdim=4, bias=bias)
    query, key, value = rand(2, 3, 8), rand(2, 5, 6), rand(2, 5, 4)
    expected, weights = plain(query, key, value, average_attn_weights=False)
    flat = [t.flatten(0, 1).npu() for t in (query, key, value)]
    out, found = ours.npu()(*flat, 2, 3, 5, need_head_weights=True)
    torch.testing.assert_close(out.view(2, 3, 8).cpu(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.transpose(0, 1).cpu(), weights, rtol=1e-4, atol=1e-5)
    assert ours(*flat, 2, 3, 5, need_weights=False)[1] is None
    assert ours(*flat, 2, 3, 5, need_weights=False, need_head_weights=True)[1].shape == (2, 2, 3, 5)
    assert ours.encoder_decoder_attention and not ours.self_attention and ours.head_dim == 4
    for projection in (ours.q_proj, ours.k_proj, ours.v_proj, ours.out_proj):
        limit = (6 / sum(projection.weight.shape)) ** 0.5
        assert limit * 0.7 < projection.weight.abs().max() <= limit and (projection.bias is None) == (not bias)


def test_multihead_attention_drops_in_training_only():
    torch.manual_seed(0)
    ours, x = modules.MultiheadAttention(8, 2, dropout=0.5).npu(), rand(10, 8).npu()
    assert not torch.equal(ours(x, x, x, 2, 5, 5)[0], ours(x, x, x, 2, 5, 5)[0])
    ours.eval()
    assert torch.equal(ours(x, x, x, 2, 5, 5)[0], ours(x, x, x, 2, 5, 5)[0])
    whole = modules.MultiheadAttention(8, 2).npu()
    assert torch.equal(whole(x, x, x, 2, 5, 5)[0], whole(x, x, x, 2, 5, 5)[0])


@pytest.mark.parametrize("option", [{"add_bias_kv": True}, {"add_zero_attn": True}, {"q_noise": 0.1}], ids=str)
def test_multihead_attention_refuses(option):
    with pytest.raises(NotImplementedError, match="does not support add_bias_kv, add_zero_attn and q_noise"):
        modules.MultiheadAttention(8, 2, **option)
    with pytest.raises(ValueError, match="embed_dim 8 must be divisible by num_heads 3"):
        modules.MultiheadAttention(8, 3)
    x = rand(10, 8).npu()
    for call in ({"static_kv": True}, {"before_softmax": True}):
        with pytest.raises(NotImplementedError, match="does not support incremental_state, static_kv and before_softmax"):
            modules.MultiheadAttention(8, 2).npu()(x, x, x, 2, 5, 5, **call)


def buffers(module):
    return {name: (tuple(t.shape), t.dtype, t.float().unique().tolist()) for name, t in module.named_buffers()}


def test_quantised_layers_hold_what_a_checkpoint_fills():
    zeros8, zeros32 = (torch.int8, [0.0]), (torch.int32, [0.0])
    ones, zeros = (torch.float32, [1.0]), (torch.float32, [0.0])
    assert buffers(modules.LinearQuant(6, 4)) == {"weight": ((4, 6), *zeros8), "scale": ((4,), *ones), "bias": ((4,), *zeros32)}
    assert buffers(modules.LinearQuant(6, 4, bias=False, offset=True, pertoken_scale=True)) == {
        "weight": ((4, 6), *zeros8), "scale": ((4,), *ones), "offset": ((4,), *zeros), "pertoken_scale": ((1,), *ones)}
    assert buffers(modules.LinearWeightQuant(7, 4)) == {
        "weight": ((4, 7), *zeros8), "antiquant_scale": ((1, 4), *ones), "bias": ((4,), *zeros)}
    assert buffers(modules.LinearWeightQuant(7, 4, bias=False, antiquant_offset=True, quant_scale=True, quant_offset=True,
                                             antiquant_group_size=3)) == {
        "weight": ((4, 7), *zeros8), "antiquant_scale": ((3, 4), *ones), "antiquant_offset": ((3, 4), *zeros),
        "quant_scale": ((4,), *ones), "quant_offset": ((4,), *zeros)}
    assert buffers(modules.QuantConv2d(4, 6, (3, 2), torch.float16, groups=2)) == {
        "weight": ((6, 2, 3, 2), *zeros8), "scale": ((6,), *ones), "bias": ((6,), *zeros32)}
    assert buffers(modules.QuantConv2d(4, 6, 3, torch.float16, bias=False, offset=True)) == {
        "weight": ((6, 4, 3, 3), *zeros8), "scale": ((6,), *ones), "offset": ((6,), *zeros)}


def test_quantised_linear_with_a_scale_for_each_token():
    layer = modules.LinearQuant(6, 4, bias=False, pertoken_scale=True, output_dtype=torch.float16).npu()
    weight, x, tokens = int8(4, 6), int8(3, 6, seed=1), torch.tensor([0.5, 1.0, 2.0])
    layer.weight.copy_(weight)
    layer.scale.fill_(0.01)
    layer.pertoken_scale = tokens.npu()
    expected = ((x.long() @ weight.long().t()) * 0.01 * tokens[:, None]).half()
    torch.testing.assert_close(layer(x.npu()).cpu(), expected, rtol=1e-3, atol=1e-3)


def test_quantised_convolution_with_its_options():
    layer = modules.QuantConv2d(4, 6, (3, 2), torch.float16, stride=(2, 1), padding=(0, 1), dilation=(1, 2), groups=2).npu()
    weight, x, bias = int8(6, 2, 3, 2), int8(1, 4, 7, 6), torch.arange(6, dtype=torch.int32) * 50
    layer.weight.copy_(weight)
    layer.bias.copy_(bias)
    layer.scale.fill_(0.001)
    expected = (F.conv2d(x.float(), weight.float(), bias.float(), (2, 1), (0, 1), (1, 2), 2) * 0.001).half()
    torch.testing.assert_close(layer(x.npu()).cpu(), expected, rtol=1e-3, atol=1e-3)


def int8(*shape, seed=0):
    return (rand(*shape, seed=seed) * 40).round().clamp(-127, 127).to(torch.int8)


@pytest.mark.parametrize("cls", [modules.LinearQuant, modules.LinearA8W8Quant])
def test_quantised_linear(cls):
    layer = cls(6, 4, output_dtype=torch.float16).npu()
    weight, bias, x = int8(4, 6), torch.arange(4, dtype=torch.int32) * 100, int8(3, 6, seed=1)
    layer.weight.copy_(weight)
    layer.bias.copy_(bias)
    layer.scale.fill_(0.01)
    expected = ((x.long() @ weight.long().t() + bias) * 0.01).half()
    torch.testing.assert_close(layer(x.npu()).cpu(), expected, rtol=1e-3, atol=1e-3)


def test_weight_quantised_linear():
    layer = modules.LinearWeightQuant(6, 4, antiquant_group_size=3).npu()
    weight, scale, x = int8(4, 6), rand(2, 4).abs(), rand(3, 6)
    layer.weight.copy_(weight)
    layer.antiquant_scale.copy_(scale)
    expected = x @ (weight.t() * scale.repeat_interleave(3, 0))
    torch.testing.assert_close(layer(x.npu()).cpu(), expected, rtol=1e-4, atol=1e-4)


def test_quantised_convolution():
    layer = modules.QuantConv2d(2, 3, 3, torch.float16, padding=1).npu()
    weight, x = int8(3, 2, 3, 3), int8(1, 2, 5, 5)
    layer.weight.copy_(weight)
    layer.scale.fill_(0.001)
    expected = (F.conv2d(x.float(), weight.float(), padding=1) * 0.001).half()
    torch.testing.assert_close(layer(x.npu()).cpu(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("cls", [modules.ModulatedDeformConv, modules.DCNv2])
def test_deformable_convolution(cls):
    layer = cls(4, 3, 3, padding=1, deformable_groups=2)
    x = rand(2, 4, 5, 5)
    # untrained offsets are zero and weights one half: a plain convolution of half the strength
    out = layer.npu()(x.npu())
    torch.testing.assert_close(out.detach().cpu(), F.conv2d(x, layer.cpu().weight, padding=1).detach() * 0.5, rtol=1e-4, atol=1e-5)
    layer.npu()(x.npu()).sum().backward()
    assert layer.conv_offset.weight.grad.abs().sum() > 0


def test_deformable_convolution_with_its_options():
    """Without shifts it is torch's convolution, at half the strength before training."""
    torch.manual_seed(0)
    layer = modules.ModulatedDeformConv(4, 6, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2).npu()
    x = rand(1, 4, 7, 6)
    assert not layer.bias.any() and not layer.conv_offset.weight.any() and not layer.conv_offset.bias.any()
    bound = 1 / (2 * 3 * 2) ** 0.5
    assert -bound <= layer.weight.min() < -0.7 * bound and 0.7 * bound < layer.weight.max() <= bound
    with torch.no_grad():
        layer.bias.copy_(torch.arange(6.0))
        expected = F.conv2d(x, layer.weight.cpu(), None, (2, 1), (1, 2), (1, 2), 2) / 2 + torch.arange(6.0).view(6, 1, 1)
        torch.testing.assert_close(layer(x.npu()).cpu(), expected, rtol=1e-4, atol=1e-5)
        plain = modules.ModulatedDeformConv(4, 6, 3, bias=False, pack=False).npu()
        assert plain.bias is None and plain.conv_offset is None
        out = plain(x.npu(), torch.zeros(1, 18, 5, 4).npu(), torch.ones(1, 9, 5, 4).npu())
        torch.testing.assert_close(out.cpu(), F.conv2d(x, plain.weight.cpu()), rtol=1e-4, atol=1e-5)


def test_deformable_convolution_moves_by_whole_pixels():
    layer = modules.ModulatedDeformConv(1, 1, 1, pack=False, bias=False).npu()
    nn.init.ones_(layer.weight)
    x = rand(1, 1, 4, 4)
    offset = torch.zeros(1, 2, 4, 4)
    offset[:, 0], offset[:, 1] = 1.0, 2.0  # one down, two to the right
    out = layer(x.npu(), offset.npu(), torch.ones(1, 1, 4, 4, device="npu")).detach().cpu()
    torch.testing.assert_close(out[0, 0, :3, :2], x[0, 0, 1:, 2:])
    assert not out[0, 0, 3].any()


def test_roi_align_of_a_linear_map_gives_bin_centres():
    ramp = torch.arange(16.0).view(1, 1, 1, 16).expand(1, 1, 16, 16).contiguous()
    rois = torch.tensor([[0.0, 2, 2, 10, 6]])
    out = modules.ROIAlign((2, 4), 1.0, 2)(ramp.npu(), rois.npu())
    torch.testing.assert_close(out[0, 0, 0].cpu(), torch.tensor([2.5, 4.5, 6.5, 8.5]))  # centres 3, 5, 7, 9 less half a pixel


def test_roi_align_with_its_options():
    ramp = torch.arange(16.0).view(1, 1, 1, 16).expand(1, 1, 16, 16).contiguous().npu()
    rois = torch.tensor([[0.0, 4, 4, 20, 12]]).npu()
    plain = modules.ROIAlign(4, 0.5, -1, aligned=False)(ramp, rois)  # as many samples as a bin has pixels
    torch.testing.assert_close(plain[0, 0].cpu(), torch.tensor([3.0, 5, 7, 9]).expand(4, 4))
    shifted = modules.ROIAlign(4, 0.5, 3)(ramp, rois)
    torch.testing.assert_close(shifted[0, 0].cpu(), torch.tensor([2.5, 4.5, 6.5, 8.5]).expand(4, 4))


def test_ps_roi_pool_has_the_sizes_of_r_fcn():
    features = torch.arange(22 * 49.0).view(1, -1, 1, 1).expand(1, -1, 8, 8).contiguous().npu()
    roi = torch.tensor([[0.0, 0, 0, 100, 100]]).npu()
    out = modules.PSROIPool()(features, roi)
    torch.testing.assert_close(out.cpu(), torch.arange(22 * 49.0).view(1, 22, 7, 7))
    assert torch.equal(modules.PSROIPool()(features, roi.t()[None]), out)


def test_ps_roi_pool_takes_each_bin_from_its_own_channel():
    features = torch.arange(4.0).view(1, 4, 1, 1).expand(1, 4, 8, 8).contiguous()
    pool = modules.PSROIPool(2, 2, 1.0, 2, 1)
    assert pool(features.npu(), torch.tensor([[0.0, 1, 1, 6, 6]]).npu()).cpu().tolist() == [[[[0, 1], [2, 3]]]]
    with pytest.raises(ValueError, match="group_size"):
        modules.PSROIPool(7, 7, 1.0, 3, 2)


def jittered(monkeypatch, image, factors, **strengths):
    """The image changed by factors that chance would have drawn, and the ranges that they were drawn from."""
    ranges, drawn = [], iter(factors)
    monkeypatch.setattr(random, "uniform", lambda low, high: ranges.append((low, high)) or next(drawn))
    return modules.FusedColorJitter(**strengths)(image).astype(float), ranges


def test_color_jitter_changes_one_property_at_a_time(monkeypatch):
    image = np.random.default_rng(0).integers(90, 160, (4, 5, 3), dtype=np.uint8)
    grey = (image @ np.array([0.299, 0.587, 0.114]))[..., None]
    none = (1.0, 1.0, 1.0, 0.0)

    def changed(place, value):
        return jittered(monkeypatch, image, [*none[:place], value, *none[place + 1:]])[0]

    assert np.abs(changed(0, 1.5) - image * 1.5).max() <= 1
    assert np.abs(changed(1, 0.5) - (image * 0.5 + grey.mean() * 0.5)).max() <= 1
    assert np.abs(changed(2, 0.25) - (image * 0.25 + grey * 0.75)).max() <= 1
    opposite, quarter = changed(3, 0.5), changed(3, 0.25)
    assert np.abs(opposite - (2 * grey - image)).max() <= 2
    assert np.abs((quarter @ np.array([0.299, 0.587, 0.114]))[..., None] - grey).max() <= 2  # as bright as before
    twice, _ = jittered(monkeypatch, quarter.astype(np.uint8), [1.0, 1.0, 1.0, 0.25])
    assert np.abs(twice - opposite).max() <= 3
    both, ranges = jittered(monkeypatch, image, [0.8, 0.5, 1.0, 0.0], brightness=0.25, contrast=2.0, saturation=0.5, hue=0.125)
    assert np.abs(both - 0.8 * (image * 0.5 + grey.mean() * 0.5)).max() <= 1
    assert ranges == [(0.75, 1.25), (0.0, 3.0), (0.5, 1.5), (-0.125, 0.125)]


def test_color_jitter_turns_red_towards_green(monkeypatch):
    """By a third of a turn; an image of PIL gives one of PIL, and what is too bright is cut."""
    red = np.full((1, 1, 3), 100, dtype=np.uint8) + np.array([40, 0, 0], dtype=np.uint8)
    turned, _ = jittered(monkeypatch, red, [1.0, 1.0, 1.0, -1 / 3])
    back, _ = jittered(monkeypatch, red, [1.0, 1.0, 1.0, 1 / 3])
    assert {int(turned[0, 0].argmax()), int(back[0, 0].argmax())} == {1, 2}
    bright, _ = jittered(monkeypatch, red, [9.0, 1.0, 1.0, 0.0])
    assert bright.tolist() == [[[255.0, 255.0, 255.0]]]
    monkeypatch.undo()
    image = pytest.importorskip("PIL.Image").fromarray(red)
    assert np.array_equal(np.asarray(modules.FusedColorJitter()(image)), red) and type(modules.FusedColorJitter()(image)) is type(image)


@pytest.mark.parametrize("strength", [{"brightness": -0.1}, {"contrast": -0.1}, {"saturation": -0.1}, {"hue": -0.1}, {"hue": 0.6}], ids=str)
def test_color_jitter_refuses_strengths_without_a_meaning(strength):
    with pytest.raises(ValueError, match=next(iter(strength))):
        modules.FusedColorJitter(**strength)
    modules.FusedColorJitter(0, 0, 0, 0.5)


def test_color_jitter():
    image = np.random.default_rng(0).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    assert np.array_equal(modules.FusedColorJitter()(image), image)
    random.seed(1)
    brighter = modules.FusedColorJitter(brightness=0.5)(image)
    random.seed(1)
    factor = random.uniform(0.5, 1.5)
    assert np.abs(brighter - np.clip(image * factor, 0, 255)).max() <= 1
    grey = np.full((2, 2, 3), 100, dtype=np.uint8)
    assert np.abs(modules.FusedColorJitter(contrast=0.9, saturation=0.9, hue=0.5)(grey).astype(int) - 100).max() <= 1
    with pytest.raises(ValueError, match="hue"):
        modules.FusedColorJitter(hue=0.7)
