"""Fusion passes of torch.compile: which chains become one operator, that results and gradients stay, and which chains are left alone."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

BOUNDS = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}
pytestmark = pytest.mark.filterwarnings("ignore:torch.compile. a graph is not captured", "ignore:The AccumulateGrad node")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)


def fused():
    return {name.removeprefix("fused "): count for name, count in torch._dynamo.utils.counters["npu"].items() if name.startswith("fused ")}


def run(function, tensors, gradients):
    leaves = [t.clone().requires_grad_(gradients and t.is_floating_point()) for t in tensors]
    out = function(*leaves)
    if gradients:
        out.backward(torch.linspace(-1, 1, out.numel(), device="npu").view(out.shape).to(out.dtype))
    return [out.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def compare(function, tensors, name, dtype=torch.float32, gradients=True):
    tensors = [t.npu().to(dtype) if t.is_floating_point() else t.npu() for t in tensors]
    expected = run(function, tensors, gradients)
    compiled = torch.compile(function, fullgraph=True)
    for _ in range(3):  # eagerly, while it is captured, replayed
        for got, wanted in zip(run(compiled, tensors, gradients), expected, strict=True):
            assert got.dtype == wanted.dtype and got.shape == wanted.shape
            torch.testing.assert_close(got, wanted, rtol=BOUNDS[dtype], atol=BOUNDS[dtype] * max(1.0, wanted.abs().max().item()))
    assert fused() == ({name: 1} if name else {})


def rms_llama(x, weight):
    """As transformers writes it."""
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * wide.to(x.dtype)


def rms_meta(x, weight):
    """As Meta wrote it."""
    return (x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-5)).type_as(x) * weight


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("function", [rms_llama, rms_meta])
def test_rms_norm(function, dtype):
    compare(function, [torch.randn(4, 6, 16), torch.rand(16) + 0.5], "rms_norm", dtype)


def test_add_rms_norm_without_gradients():
    def block(x, residual, weight):
        total = x + residual
        return rms_llama(total, weight) + total

    tensors = [t.npu() for t in (torch.randn(4, 16), torch.randn(4, 16), torch.rand(16))]
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(block)(*tensors), block(*tensors))
    assert fused() == {"rms_norm": 1, "add_rms_norm": 1}


ANGLES = torch.linspace(0, 3, 48).view(1, 1, 6, 8).repeat(1, 1, 1, 2)


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rotate_chunks(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("turn", [rotate_half, rotate_chunks])
def test_rotary_embedding(turn, dtype):
    def given(x, cos, sin):
        return (x * cos + turn(x) * sin).sin() * 2 - 1

    cos, sin = ANGLES.cos().npu(), ANGLES.sin().npu()
    compare(lambda x: given(x, cos.to(x.dtype), sin.to(x.dtype)), [torch.randn(2, 3, 6, 16)], "rotate", dtype)


@pytest.mark.parametrize("dtype", BOUNDS)
def test_swiglu(dtype):
    def gated(x):
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate) * up

    compare(lambda x: gated(x * 2) + 1, [torch.randn(4, 32)], "swiglu", dtype)


def test_geglu():
    def gated(x):
        up, gate = x.chunk(2, dim=-1)
        return up * F.gelu(gate)

    compare(lambda x: gated(x * 2) + 1, [torch.randn(4, 32)], "geglu")


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("masked", [False, True])
def test_attention(masked, dtype):
    mask = torch.zeros(5, 7, dtype=dtype).masked_fill(torch.rand(5, 7) > 0.7, -1e4).npu() if masked else None

    def attend(q, k, v):
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(8)
        if mask is not None:
            scores = scores + mask
        return torch.matmul(F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype), v)

    compare(attend, [torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 8)], "attention", dtype)


def test_scaled_masked_softmax():
    mask = (torch.rand(2, 1, 8, 32) > 0.7).npu()
    compare(lambda x: (x * 0.5).masked_fill(mask, -10000.0).softmax(-1) + 1, [torch.randn(2, 3, 8, 32)], "masked_softmax", torch.float16)


def test_group_norm_silu_without_gradients():
    norm = nn.GroupNorm(2, 4).npu()
    x = torch.randn(2, 4, 8, 8).npu()
    function = lambda x: F.silu(norm(x * 2)) + 1  # noqa: E731
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(function)(x), function(x))
    assert fused() == {"group_norm_silu": 1}


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("options", [{}, {"reduction": "sum"}, {"reduction": "none"}, {"ignore_index": 1, "label_smoothing": 0.1}])
def test_cross_entropy(options, dtype):
    compare(lambda x, t: F.cross_entropy(x * 2, t, **options) * 3, [torch.randn(6, 5), torch.tensor([0, 1, 2, 3, 4, 1])],
            "cross_entropy", dtype)


@pytest.mark.parametrize("name, function, shapes", [
    ("a result in between is used", lambda x, w: ((y := x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)) * w) + y, [(4, 8), (8,)]),
    ("another exponent", lambda x, w: w * (x * torch.rsqrt(x.pow(3).abs().mean(-1, keepdim=True) + 1e-6)), [(4, 8), (8,)]),
    ("another dimension", lambda x, w: w * (x * torch.rsqrt(x.pow(2).mean(0, keepdim=True) + 1e-6)), [(4, 8), (8,)]),
    ("a weight of another size", lambda x, w: w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)), [(4, 8), (4, 1)]),
    ("halves in the other order", lambda x, w: F.silu(x.chunk(2, -1)[1]) * x.chunk(2, -1)[0] + w, [(4, 16), (8,)]),
    ("thirds", lambda x, w: F.silu(x.chunk(3, -1)[0]) * x.chunk(3, -1)[1] + w, [(4, 24), (8,)]),
    ("another sign", lambda x, w: x * w + torch.cat((x[..., 4:], -x[..., :4]), -1) * w, [(2, 3, 4, 8), (1, 1, 4, 8)]),
    ("no last dimension", lambda x, w: torch.matmul(torch.matmul(x, w.transpose(-2, -1)).softmax(-2), w), [(1, 2, 4, 8), (1, 2, 4, 8)]),
    ("a weighted loss", lambda x, w: F.cross_entropy(x, torch.arange(4, device="npu"), weight=w.detach()) + w.sum(), [(4, 8), (8,)]),
    ("tanh", lambda x, w: x.chunk(2, -1)[0] * F.gelu(x.chunk(2, -1)[1], approximate="tanh") + w, [(4, 16), (8,)]),
], ids=lambda value: value if isinstance(value, str) else "")
def test_chains_that_are_something_else_are_left_alone(name, function, shapes):
    compare(function, [torch.rand(shape) + 0.5 for shape in shapes], None)


def test_a_chain_is_left_alone_where_the_program_interrupts_it():
    def changed(x, w):
        wide = x * 1
        root = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        wide.add_(1)
        return w * (wide * root)

    def unwatched(x, w):
        with torch.no_grad():
            root = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return w * (x * root)

    for function, gradients in ((changed, False), (unwatched, True)):
        torch._dynamo.reset()
        compare(function, [torch.rand(4, 8), torch.rand(8)], None, gradients=gradients)


def test_symbolic_sizes():
    compiled = torch.compile(rms_llama, dynamic=True)
    for rows in (2, 3, 4, 2, 3, 4):
        x, weight = torch.randn(rows, 16).npu(), torch.rand(16).npu()
        torch.testing.assert_close(compiled(x, weight), rms_llama(x, weight))
    assert fused() == {"rms_norm": 1}


def test_under_autocast():
    linear = nn.Linear(16, 16).npu()

    def block(x, weight):
        return rms_llama(linear(x), weight).sum()

    x, weight = torch.randn(4, 16).npu(), torch.rand(16).npu()
    with torch.autocast("npu", torch.bfloat16):
        torch.testing.assert_close(torch.compile(block)(x, weight), block(x, weight), rtol=2e-2, atol=2e-2)
