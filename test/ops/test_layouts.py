"""Values, statistics and strides of results whose operands or out= tensors are not contiguous, against the CPU."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import binary_ufuncs, unary_ufuncs
from torch.testing._internal.opinfo.core import UnaryUfuncInfo

pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no npu is available")


def image(channels=4, *space):
    space = space or (5, 6)
    return torch.arange(2 * channels * torch.Size(space).numel(), dtype=torch.float32).reshape(2, channels, *space).sin()


LAYOUTS = {
    "contiguous": lambda x: x,
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d),
    "permuted": lambda x: x.permute(*reversed(range(x.dim()))).contiguous().permute(*reversed(range(x.dim()))),
    "slice": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "chunk": lambda x: torch.cat([x, x], 1).chunk(2, 1)[0],
    "expanded": lambda x: x[:1].expand_as(x),
}


def on_npu(x):
    """The same tensor with the same strides on the card."""
    base = torch.as_strided(x, (x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
    return base.npu().as_strided(x.size(), x.stride(), x.storage_offset())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batch_norm_in_training(layout, dtype):
    results = []
    for place in (lambda x: x, on_npu):
        x = place(LAYOUTS[layout](image().to(dtype))).detach().requires_grad_()
        norm = torch.nn.BatchNorm2d(4, dtype=dtype, device=x.device)
        out = norm(x)
        out.square().sum().backward(inputs=[x, *norm.parameters()])
        results.append([out, norm.running_mean, norm.running_var, x.grad, norm.weight.grad])
    for here, there in zip(*results):
        torch.testing.assert_close(there.cpu(), here, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", ["reflect", "replicate", "constant", "circular"])
@pytest.mark.parametrize("space", [(5, 6), (4, 5, 3)])
def test_padding(layout, mode, space):
    x = LAYOUTS[layout](image(3, *space))
    results = []
    for t in (x.clone() if layout == "expanded" else x, on_npu(x)):
        t = t.detach().requires_grad_()
        out = F.pad(t, (1, 2) * len(space), mode=mode)
        out.square().sum().backward()
        results.append((out, t.grad))
    for here, there in zip(*results):
        torch.testing.assert_close(there.cpu(), here)


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "expanded"])
@pytest.mark.parametrize("name", ["tril_", "triu_"])
@pytest.mark.parametrize("diagonal", [-1, 0, 2])
def test_triangles_in_place(layout, name, diagonal):
    here = LAYOUTS[layout](image())
    there = on_npu(here)
    getattr(there, name)(diagonal)
    torch.testing.assert_close(there.cpu(), getattr(here.clone(), name)(diagonal))


def every_layout(x):
    return {name: LAYOUTS[name](x) for name in ("contiguous", "channels_last", "permuted", "slice", "expanded")} | {
        "transposed": x.transpose(-1, -2).contiguous().transpose(-1, -2)}


def outputs(results):
    return [t for t in torch.utils._pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]


def same_results(function, *operands):
    here = outputs(function(*operands))
    there = outputs(function(*(on_npu(x) for x in operands)))
    for expected, got in zip(here, there, strict=True):
        torch.testing.assert_close(got.cpu(), expected, equal_nan=True, rtol=1e-4, atol=1e-4)
        assert got.stride() == expected.stride()


# Not operators of their own, with operands of their own, random.
LEFT_OUT = {"float_power", "nn.functional.prelu", "nn.functional.rrelu"}
UFUNCS = [op for op in [*unary_ufuncs, *binary_ufuncs]
          if torch.float32 in op.dtypes and op.name not in LEFT_OUT and not op.name.startswith(("_refs", "jiterator"))]


@pytest.mark.parametrize("op", UFUNCS, ids=lambda op: op.formatted_name)
def test_strides_of_elementwise_operators(op):
    """Over torch's database: the strides of a result are the CPU's, so that view() takes it or refuses it on both."""
    layouts = every_layout(image())
    one = isinstance(op, UnaryUfuncInfo)
    for name, x in layouts.items():
        kwargs = op.sample_kwargs("cpu", torch.float32, x)[0] if one else {}
        pairs = [(x,)] if one else [(x, y) for other, y in layouts.items() if other in (name, "contiguous", "channels_last")]
        for operands in pairs:
            same_results(lambda *t: op.op(*t, **kwargs), *operands)


WITHOUT_UFUNC = {
    "where": lambda x: torch.where(x > 0, x, x * 2),
    "where a number": lambda x: torch.where(x > 0, x, 0.0),
    "huber_loss": lambda x: F.huber_loss(x, x * 0, reduction="none"),
    "l1_loss": lambda x: F.l1_loss(x, x * 0, reduction="none"),
    "mse_loss": lambda x: F.mse_loss(x, x * 0, reduction="none"),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(x.sigmoid(), x.sigmoid(), reduction="none"),
    "complex": lambda x: torch.complex(x, x),
    "prelu": lambda x: F.prelu(x, torch.full((1,), 0.1, device=x.device)),
    "flip": lambda x: x.flip(0),
    "dropout": lambda x: F.dropout(x, 0.5) * 0,
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x[..., :4, :4], 2),
    "conv2d": lambda x: F.conv2d(x, torch.ones(2, 4, 2, 2, device=x.device)),
    "conv2d of weights in channels_last": lambda x: F.conv2d(
        x, torch.ones(2, 4, 2, 2, device=x.device).to(memory_format=torch.channels_last)),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1),
}


@pytest.mark.parametrize("name", WITHOUT_UFUNC)
def test_strides_of_other_operators(name):
    for x in every_layout(image()).values():
        same_results(WITHOUT_UFUNC[name], x)


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last_3d])
def test_strides_of_a_volume(format):
    x = image(3, 4, 5, 6).contiguous(memory_format=format)
    same_results(lambda x: F.conv3d(x, torch.ones(2, 3, 2, 2, 2, device=x.device)), x)
    same_results(torch.abs, x)


def test_a_result_in_channels_last_can_be_viewed():
    x = torch.randn(2, 3, 4, 5).npu().to(memory_format=torch.channels_last)
    assert x.abs().permute(0, 2, 3, 1).view(-1, 3).shape == (40, 3)


def test_huber_loss_has_the_type_of_its_input():
    for types in [(torch.float32, torch.float64), (torch.float64, torch.float32)]:
        x, y = (torch.ones(3, dtype=dtype) for dtype in types)
        assert F.huber_loss(x.npu(), y.npu()).dtype == F.huber_loss(x, y).dtype


INTO = {
    "_softmax": lambda x, out: torch.ops.aten._softmax.out(x, 1, False, out=out),
    "_log_softmax": lambda x, out: torch.ops.aten._log_softmax.out(x, 1, False, out=out),
    "tril": lambda x, out: torch.tril(x, out=out),
    "triu": lambda x, out: torch.triu(x, out=out),
    "gelu": lambda x, out: torch._C._nn.gelu(x, out=out),
    "avg_pool3d": lambda x, out: torch._C._nn.avg_pool3d(x, 2, out=out),
    "adaptive_max_pool3d": lambda x, out: torch.ops.aten.adaptive_max_pool3d.out(
        x, [2, 2, 2], out=out, indices=torch.empty(0, dtype=torch.long, device=x.device))[0],
}


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("name", INTO)
def test_out_in_channels_last(name, layout):
    x = image(3, 4, 4, 6) if "3d" in name else image(3, 4, 6)
    expected = INTO[name](x, torch.empty(0))
    out = on_npu(LAYOUTS["channels_last"](torch.zeros_like(expected)))
    strides = out.stride()
    INTO[name](on_npu(LAYOUTS[layout](x)), out)
    assert out.stride() == strides
    torch.testing.assert_close(out.cpu(), expected)
