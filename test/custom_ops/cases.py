"""One case per custom operator: arguments, and what plain torch makes of them.

A case is (operator, arguments, reference). Tensors among the arguments are on the CPU; floating ones named in `grad` (by position)
are differentiated through one output. The reference gets the same arguments and returns the outputs that are compared, in order.
"""

from dataclasses import dataclass, field

import torch
from torch.nn import functional as F


def rand(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


@dataclass
class Case:
    op: str
    args: tuple
    reference: object
    kwargs: dict = field(default_factory=dict)
    grad: tuple = ()
    label: str = ""
    through: int = 0  # the output that is differentiated
    written: tuple = ()  # positions of the arguments that are compared instead of a result, which is not there

    def __str__(self):
        return f"{self.op}{'-' + self.label if self.label else ''}"


class Leading:
    """A result of which only the first rows are written: equals a tensor that begins with them."""

    def __init__(self, rows):
        self.rows = rows

    def __eq__(self, other):
        torch.testing.assert_close(other[: len(self.rows)].cpu(), self.rows, rtol=1e-4, atol=1e-5)
        return True

    __hash__ = None


X, W = rand(4, 6, 8), rand(8, seed=1)
HALVES = rand(3, 8)
MASK = torch.rand(2, 1, 4, 5, generator=torch.Generator().manual_seed(3)) > 0.6
MASK[..., 0] = False
SCORES = rand(2, 3, 4, 5)


def rms(x, w, eps=1e-6):
    rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    return x * rstd * w, rstd


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def rotate_pairs(x):
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


NORM = [
    Case("npu_rms_norm", (X, W), rms, grad=(0, 1)),
    Case("npu_rms_norm_backward", (X, rand(4, 6, 8, seed=5), W, rms(rand(4, 6, 8, seed=5), W)[1]),
         lambda dy, x, w, r: grads(lambda a, b: rms(a, b)[0], (x, w), dy)),
    Case("npu_gemma_rms_norm", (X, W), lambda x, w: rms(x, 1 + w)),
    Case("npu_add_rms_norm", (X, rand(4, 6, 8, seed=2), W), lambda a, b, w: (*rms(a + b, w), a + b)),
    Case("npu_add_rms_norm_cast", (X, X, W), lambda a, b, w: (rms(a + b, w)[0], *rms(a + b, w), a + b)),
    Case("npu_add_layer_norm", (X, X, W, W, 1e-5, True),
         lambda a, b, w, c, e, f: (F.layer_norm(a + b, (8,), w, c), (a + b).mean(-1, keepdim=True),
                                   ((a + b).var(-1, correction=0, keepdim=True) + e).rsqrt(), a + b), grad=(0, 2)),
    Case("npu_layer_norm_eval", (X, [8], W, W), lambda x, s, w, b: F.layer_norm(x, s, w, b), grad=(0,)),
    Case("npu_group_norm_silu", (rand(2, 6, 5), rand(6), rand(6, seed=1), 3),
         lambda x, w, b, g: (F.silu(F.group_norm(x, g, w, b)),)),
    Case("npu_group_norm_swish", (rand(2, 6, 5), 3, rand(6), rand(6, seed=1), 1e-5, 2.0),
         lambda x, g, w, b, e, s: (lambda y: y * torch.sigmoid(s * y))(F.group_norm(x, g, w, b)), grad=(0, 2, 3)),
    Case("npu_deep_norm", (X, rand(4, 6, 8, seed=2), W, W), lambda x, g, b, w: (
        (0.3 * x + g).mean(-1, keepdim=True), ((0.3 * x + g).var(-1, correction=0, keepdim=True) + 1e-6).rsqrt(),
        F.layer_norm(0.3 * x + g, (8,), w, b, 1e-6)), grad=(0, 1), through=2),
    Case("npu_layernorm_grad", (X, rand(4, 6, 8, seed=5), [8], rand(4, 6, 8, seed=5).mean(-1, keepdim=True),
                                (rand(4, 6, 8, seed=5).var(-1, correction=0, keepdim=True) + 1e-5).rsqrt(), W, W),
         lambda g, x, s, m, r, w, b: grads(lambda a, c, d: F.layer_norm(a, (8,), c, d), (x, w, b), g)),
]

ACTIVATION = [
    Case("npu_fast_gelu", (X,), lambda x: x / (1 + torch.exp(-1.702 * x.abs())) * torch.exp(0.851 * (x - x.abs())), grad=(0,)),
    Case("fast_gelu", (X,), lambda x: x * torch.sigmoid(1.702 * x), grad=(0,)),
    Case("npu_fast_gelu_backward", (X, X), lambda g, x: grads(lambda a: a * torch.sigmoid(1.702 * a), (x,), g)),
    Case("npu_gelu", (X,), lambda x, approximate: F.gelu(x, approximate=approximate), {"approximate": "tanh"}, grad=(0,)),
    Case("npu_gelu_backward", (X, X), lambda g, x: grads(F.gelu, (x,), g)),
    Case("npu_gelu_mul", (HALVES,), lambda x: F.gelu(x[:, :4]) * x[:, 4:]),
    Case("npu_geglu", (HALVES,), lambda x: (x[:, :4] * F.gelu(x[:, 4:], approximate="tanh"),
                                            F.gelu(x[:, 4:], approximate="tanh")), grad=(0,)),
    Case("npu_mish", (X,), F.mish, grad=(0,)),
    Case("npu_mish_backward", (X, X), lambda g, x: grads(F.mish, (x,), g)),
    Case("npu_silu", (X,), F.silu, grad=(0,)),
    Case("npu_silu_", (X,), F.silu),
    Case("npu_swiglu", (HALVES,), lambda x: F.silu(x[:, :4]) * x[:, 4:], grad=(0,)),
    Case("npu_swiglu_backward", (rand(3, 4), HALVES), lambda g, x: grads(lambda a: F.silu(a[:, :4]) * a[:, 4:], (x,), g)),
    Case("npu_clipped_swiglu", (HALVES * 9,), lambda x: clipped(x[:, ::2], x[:, 1::2])),
    Case("npu_clipped_swiglu", (HALVES * 9,), lambda x, interleaved: clipped(x[:, :4], x[:, 4:]), {"interleaved": False},
         label="halves"),
    Case("npu_silu_backward", (X, X, F.silu(X)), lambda g, x, y: grads(F.silu, (x,), g)),
    Case("npu_geglu_grad", (rand(3, 4), HALVES, F.gelu(HALVES[:, :4]), -1, 0, True),
         lambda g, x, y, *_: grads(lambda a: a[:, 4:] * F.gelu(a[:, :4]), (x,), g)),
]


def clipped(gate, linear):
    gate, linear = gate.clamp(max=7.0), linear.clamp(-7.0, 7.0)
    return gate * torch.sigmoid(1.702 * gate) * (linear + 1)


def grads(function, inputs, grad):
    leaves = [t.detach().requires_grad_() for t in inputs]
    with torch.enable_grad():
        return torch.autograd.grad(function(*leaves), leaves, grad)


SOFTMAX = [
    Case("npu_softmax_cross_entropy_with_logits", (rand(4, 5), torch.softmax(rand(4, 5, seed=2), -1)),
         lambda x, y: F.cross_entropy(x, y, reduction="none"), grad=(0,)),
]

COS, SIN = rand(1, 6, 1, 8, seed=3).cos(), rand(1, 6, 1, 8, seed=3).sin()
Q4 = rand(2, 6, 3, 8)
TURNS = rand(6, 6)  # three cosines and three sines for each position


def turned(rows, positions, pairs=False):
    """The first six numbers of each head of eight, turned two by two."""
    result = rows.clone()
    for token in range(len(rows)):
        for head in range(rows.shape[1] // 8):
            for i in range(3):
                place = positions[token] if positions.dim() == 1 else positions[i, token]
                cos, sin = TURNS[place, i], TURNS[place, 3 + i]
                a, b = (head * 8 + 2 * i, head * 8 + 2 * i + 1) if pairs else (head * 8 + i, head * 8 + i + 3)
                result[token, a] = rows[token, a] * cos - rows[token, b] * sin
                result[token, b] = rows[token, b] * cos + rows[token, a] * sin
    return result


CAST = [
    Case("npu_dtype_cast", (X, 5), lambda x, d: x.half(), grad=(0,)),
    Case("npu_dtype_cast_", (X.half(), X), lambda a, b: b.half()),
    Case("npu_dtype_cast_backward", (X.half(), torch.float32), lambda g, d: g.float()),
    Case("copy_memory_", (X, X + 1), lambda x, y: y),
    Case("one_", (X,), torch.ones_like),
    Case("npu_alloc_float_status", (X,), lambda x: torch.zeros(8)),
]

LAYOUT = [
    Case("npu_confusion_transpose", (X, [0, 2, 1], [8, 24], True), lambda x, p, s, f: x.permute(p).reshape(s), grad=(0,)),
    Case("npu_confusion_transpose", (X, [1, 0], [8, 24], False), lambda x, p, s, f: x.reshape(s).permute(p), grad=(0,), label="after"),
    Case("npu_confusion_transpose_backward", (rand(8, 24), [0, 2, 1], [4, 6, 8], True),
         lambda g, p, s, f: grads(lambda x: x.permute(p).reshape(8, 24), (X,), g)),
    Case("npu_transpose", (X, [2, 0, 1]), lambda x, p: x.permute(p), grad=(0,)),
    Case("npu_reshape", (X, [24, 8]), lambda x, s: x.reshape(s), grad=(0,)),
    Case("npu_slice", (X, [1, 0, 2], [2, -1, 3]), lambda x, o, s: x[1:3, :, 2:5], grad=(0,)),
    Case("npu_slice", (X, [1, 2, 2], [2, -1, -1]), lambda x, o, s: x[1:3, 2:, 2:], label="to_the_end"),
    Case("npu_broadcast", (W, [2, 8]), lambda x, s: x.expand(s), grad=(0,)),
    Case("npu_pad", (rand(2, 3), [1, 0, 2, 1]), lambda x, p: F.pad(x, [2, 1, 1, 0]), grad=(0,)),
    Case("npu_one_hot", (torch.tensor([0, 2]), -1, 3), lambda x, n, d: F.one_hot(x, 3).float()),
    Case("npu_one_hot", (torch.tensor([[0, 2], [1, 1]]), -1, 3, 5, -2), lambda x, n, d, on, off: F.one_hot(x, 3).float() * 7 - 2,
         label="values"),
    Case("npu_one_hot", (torch.tensor([0, 2]),), lambda x: torch.tensor([[1.0], [0.0]]), label="defaults"),
    Case("npu_linear", (X, rand(3, 8), rand(3)), F.linear, grad=(0, 1, 2)),
    Case("npu_linear", (rand(5, 8), rand(3, 8), rand(3)), F.linear, grad=(0, 1, 2), label="rows"),
    Case("npu_linear", (rand(5, 8), rand(3, 8)), F.linear, label="without_bias"),
    Case("npu_bmmV2", (X, rand(4, 8, 3), []), lambda a, b, s: a @ b, grad=(0, 1)),
    Case("npu_max.dim", (X, 1), lambda x, d: (x.max(d).values, x.max(d).indices.int()), grad=(0,)),
    Case("npu_max.dim", (X, -1, True), lambda x, d, k: (x.max(d, k).values, x.max(d, k).indices.int()), label="keepdim"),
    Case("npu_min.dim", (X, 0), lambda x, d: (x.min(d).values, x.min(d).indices.int()), label="first"),
    Case("npu_min.dim", (X, 1, True), lambda x, d, k: (x.min(d, k).values, x.min(d, k).indices.int()), grad=(0,)),
    Case("npu_sort_v2", (X, 1, True), lambda x, d, r: x.sort(d, r).values, grad=(0,)),
    Case("npu_sort_v2", (X,), lambda x: x.sort(-1).values, label="defaults"),
    Case("npu_scatter", (rand(3, 4), torch.tensor([2, 0, 1, 1]), rand(4), 0),
         lambda x, i, u, d: x.scatter(0, i[None], u[None]), label="rows"),
    Case("npu_scatter", (rand(3, 4), torch.tensor([1, 0, 3]), rand(3), 1),
         lambda x, i, u, d: x.scatter(1, i[:, None], u[:, None]), grad=(0, 2)),
    Case("npu_stride_copy", (X, [2, 3], [8, 1], 4), lambda x, s, t, o: x.as_strided(s, t, o)),
    Case("npu_conv2d", (rand(1, 2, 5, 5), rand(3, 2, 3, 3), rand(3), [1, 1], [1, 1], [1, 1], 1), F.conv2d, grad=(0, 1, 2)),
    Case("npu_convolution", (rand(1, 2, 5, 5), rand(3, 2, 3, 3), None, [2, 2], [1, 1], [1, 1], 1), F.conv2d, grad=(0, 1)),
    Case("npu_conv3d", (rand(1, 2, 4, 4, 4), rand(3, 2, 3, 3, 3), None, [1] * 3, [1] * 3, [1] * 3, 1), F.conv3d, grad=(0, 1)),
    Case("npu_convolution", (rand(1, 2, 4, 4, 4), rand(3, 2, 3, 3, 3), None, [2] * 3, [1] * 3, [1] * 3, 1), F.conv3d, label="3d"),
    Case("npu_conv_transpose2d", (rand(1, 2, 4, 4), rand(2, 3, 3, 3), None, [1, 1], [0, 0], [2, 2], [1, 1], 1),
         lambda x, w, b, p, o, s, d, g: F.conv_transpose2d(x, w, b, s, p, o, g, d), grad=(0, 1)),
    Case("npu_indexing", (X, [1, 0, 2], [3, 0, 7], [1, 2, 3], 0, 2, 0, 0, 1), lambda x, *_: x[1, ::2, 2:7:3], grad=(0,)),
    Case("npu_indexing", (X, [1, 2, 3], [4, 5, 7], [2, 1, 3], 3, 4), lambda x, *_: x[:4:2, :5, 3::3], label="open_ends"),
    Case("npu_indexing.out", (X, [1, 0, 2], [3, 3, 7], [1, 1, 2]), lambda x, *_, out: x[1:3, :3, 2:7:2], {"out": rand(1)}),
    Case("npu_slice.out", (X, [1, 0, 2], [2, -1, 3]), lambda x, o, s, out: x[1:3, :, 2:5], {"out": rand(2, 6, 3)}),
    Case("npu_transpose.out", (X, [2, 0, 1]), lambda x, p, out: x.permute(p), {"out": rand(8, 4, 6)}),
    Case("npu_reshape.out", (X, [24, 8]), lambda x, s, out: x.reshape(s), {"out": rand(24, 8)}),
    Case("npu_broadcast.out", (W, [2, 8]), lambda x, s, out: x.expand(s), {"out": rand(2, 8)}),
    Case("npu_stride_copy.out", (X, [2, 3], [8, 1], 4), lambda x, s, t, o, out: x.as_strided(s, t, o), {"out": rand(2, 3)}),
    Case("npu_sort_v2.out", (X, 1, True), lambda x, d, r, out: x.sort(d, r).values, {"out": rand(4, 6, 8)}),
    Case("npu_conv2d.out", (rand(1, 2, 5, 5), rand(3, 2, 3, 3), rand(3), [1, 1], [1, 1], [1, 1], 1),
         lambda *args, out: F.conv2d(*args), {"out": rand(1, 3, 5, 5)}),
    Case("npu_conv3d.out", (rand(1, 2, 4, 4, 4), rand(3, 2, 3, 3, 3), None, [1] * 3, [1] * 3, [1] * 3, 1),
         lambda *args, out: F.conv3d(*args), {"out": rand(1, 3, 4, 4, 4)}),
    Case("npu_gather_sparse_index", (rand(5, 4), torch.tensor([[4, 0], [1, 1]], dtype=torch.int32)), lambda x, i: x[i.long()], grad=(0,)),
    Case("npu_view_copy", (X, X + 1, False), lambda x, y, n: y),
    Case("npu_convolution_transpose", (rand(1, 2, 4, 4), rand(2, 3, 3, 3), rand(3), [1, 1], [1, 1], [2, 2], [1, 1], 1),
         lambda x, w, b, p, o, s, d, g: F.conv_transpose2d(x, w, b, s, p, o, g, d), grad=(0, 1, 2)),
    Case("npu_convolution_transpose", (rand(1, 2, 3, 3, 3), rand(2, 3, 2, 2, 2), None, [0] * 3, [0] * 3, [2] * 3, [1] * 3, 1),
         lambda x, w, b, p, o, s, d, g: F.conv_transpose3d(x, w, b, s, p, o, g, d), label="3d"),
    Case("npu_linear_backward", (rand(4, 6, 3), X, rand(3, 8)), lambda g, x, w: grads(F.linear, (x, w), g)),
    Case("npu_linear_backward", (rand(5, 3), rand(5, 8), rand(3, 8)), lambda g, x, w: grads(F.linear, (x, w), g), label="rows"),
    Case("npu_attn_softmax_", (X,), lambda x: torch.softmax(x, -1)),
    Case("npu_prefetch", (X, None, 100), lambda *_: ()),
    # The numbers of these two are those of the operators' documented examples.
    Case("npu_sign_bits_pack", (torch.tensor([5.0, 4, 3, 2, 0, -1, -2, 4, 3, 2, 1, 0, -1, -2]), 2),
         lambda x, s: torch.tensor([[159], [15]], dtype=torch.uint8)),
    Case("npu_sign_bits_pack", (torch.tensor([-1.0] * 7 + [2.0] + [-1.0] * 8 + [3.0]), 1),
         lambda x, s: torch.tensor([[128, 0, 1]], dtype=torch.uint8), label="last_bit"),
    Case("npu_sign_bits_unpack", (torch.tensor([159, 15], dtype=torch.uint8), 2, torch.float32),
         lambda x, s, d: torch.tensor([[1.0, 1, 1, 1, 1, -1, -1, 1], [1, 1, 1, 1, -1, -1, -1, -1]])),
]

def updated(cache, indices, updates, axis):
    result = cache.clone()
    for i, place in enumerate(indices.tolist()):
        result[i, :, place : place + 2] = updates[i]
    return result


def narrowed(logits, p, k):
    result = torch.full_like(logits, -torch.inf)
    for row, (values, most, count) in enumerate(zip(logits, p.tolist(), k.tolist())):
        order = values.argsort(descending=True)[:count]
        probs, sofar = torch.softmax(values[order], 0), 0.0
        for place, prob in zip(order.tolist(), probs.tolist()):
            if sofar < most or sofar == 0.0:
                result[row, place] = values[place]
            sofar += prob
    return result

# Cases that the official wheel refuses, or answers otherwise: see test/official/custom_ops.py.
NOT_OFFICIAL = {
    "npu_linear": "it takes two dimensions only",
    "npu_linear_backward": "the same",
    "npu_reshape gradient": "its result has no gradient",
}
