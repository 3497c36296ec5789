"""Fusion passes on Dynamo's graph alone: every spelling of a chain is found, its neighbours are not, and the graph that is left holds the
fused operator and nothing of the chain. test_fusions.py has the same in compiled programs, with gradients.
"""

import collections
import math
import operator

import pytest
import torch
from torch.nn import functional as F

import torch_npu  # noqa: F401
from torch_npu.dynamo import fusions

npu = torch.ops.npu


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def run(function, *tensors):
    """What calls are left, by name, and that the result is that of the function."""
    calls = collections.Counter()
    before = collections.Counter(torch._dynamo.utils.counters["npu"])

    def backend(model, inputs):
        fusions.apply(model)
        for node in model.graph.nodes:
            if node.op in ("call_function", "call_method"):
                name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
                calls[name.removesuffix(".default")] += 1
        return model.forward

    tensors = [t.npu() if isinstance(t, torch.Tensor) else t for t in tensors]
    got, wanted = torch.compile(function, backend=backend, fullgraph=True, dynamic=False)(*tensors), function(*tensors)
    for one, other in zip(*((t if isinstance(t, tuple) else (t,)) for t in (got, wanted)), strict=True):
        assert one.dtype == other.dtype
        bound = {torch.float16: 5e-3, torch.bfloat16: 4e-2}.get(one.dtype, 1e-5)
        torch.testing.assert_close(one, other, rtol=bound, atol=bound)
    counted = collections.Counter(torch._dynamo.utils.counters["npu"]) - before
    return dict(calls), {name.removeprefix("fused "): number for name, number in counted.items()}


def only(function, tensors, calls, name):
    assert run(function, *tensors) == (calls, {name: 1})


def untouched(function, *tensors):
    calls, counted = run(function, *tensors)
    assert not counted and not any(name.startswith("npu_") for name in calls), calls


# ---- RMS norm ----

POWERS = {"operator": lambda x: x ** 2, "torch.pow": lambda x: torch.pow(x, 2), "method": lambda x: x.pow(2),
          "square": lambda x: x.square(), "torch.square": lambda x: torch.square(x), "exponent": lambda x: x.pow(exponent=2)}
MEANS = {"method": lambda x: x.mean(-1, keepdim=True), "torch": lambda x: torch.mean(x, -1, True), "list": lambda x: x.mean([-1], True),
         "tuple": lambda x: x.mean((2,), keepdim=True), "from the front": lambda x: x.mean(dim=2, keepdim=True)}
ROOTS = {"torch": lambda x: torch.rsqrt(x + 1e-2), "method": lambda x: x.add(1e-2).rsqrt(),
         "torch.add": lambda x: torch.add(x, 1e-2).rsqrt()}
X, WEIGHT = torch.randn(2, 3, 8), torch.rand(8) + 0.5
NORM = {"npu_rms_norm": 1, "getitem": 1}


def rms(x, weight, power=POWERS["method"], mean=MEANS["method"], root=ROOTS["torch"]):
    return weight * (x * root(mean(power(x))))


@pytest.mark.parametrize("options", [{part: spelling} for part, spellings in (("power", POWERS), ("mean", MEANS), ("root", ROOTS))
                                     for spelling in spellings.values()])
def test_spellings_of_the_root_mean_square(options):
    only(lambda x, w: rms(x, w, **options), (X, WEIGHT), NORM, "rms_norm")


CASTS = {
    "once": lambda x, w: w * ((y := x.float()) * torch.rsqrt(y.pow(2).mean(-1, True) + 1e-2)).to(x.dtype),
    "once, the root first": lambda x, w: (torch.rsqrt((y := x.to(torch.float32)).pow(2).mean(-1, True) + 1e-2) * y).type_as(x) * w,
    "twice": lambda x, w: w * (x.float() * torch.rsqrt(x.type(torch.float32).pow(2).mean(-1, True) + 1e-2)).half(),
    "for the square": lambda x, w: w * (x * torch.rsqrt(x.float().pow(2).mean(-1, True) + 1e-2)).half(),
    "to what it is": lambda x, w: w * (x.half() * torch.rsqrt(x.to(torch.float16).pow(2).mean(-1, True) + 1e-2)).type_as(x),
}


@pytest.mark.parametrize("spelling", CASTS)
def test_casts_around_the_root_mean_square(spelling):
    only(CASTS[spelling], (X.half(), WEIGHT.half()), NORM, "rms_norm")


def test_a_cast_back_to_bfloat16():
    only(lambda x, w: w * ((y := x.float()) * torch.rsqrt(y.pow(2).mean(-1, True) + 1e-2)).bfloat16(), (X.bfloat16(), WEIGHT.bfloat16()),
         NORM, "rms_norm")


@pytest.mark.parametrize("name, function, tensors", [
    ("float64", rms, (X.double(), WEIGHT.double())),
    ("a weight of another type", lambda x, w: rms(x.half(), w, root=lambda y: torch.rsqrt(y + 1e-2)), (X, WEIGHT)),
    ("a number as the weight", lambda x: rms(x, 2.0), (X,)),
    ("a tensor as epsilon", lambda x, w, e: rms(x, w, root=lambda y: torch.rsqrt(y + e)), (X, WEIGHT, torch.tensor(0.1))),
    ("an integer as epsilon", lambda x, w: rms(x, w, root=lambda y: torch.rsqrt(y + 1)), (X, WEIGHT)),
    ("a weight of one", rms, (X, WEIGHT[:1])),
    ("a weight of two dimensions", rms, (X, torch.rand(3, 8))),
    ("a weight for rows", rms, (torch.randn(4, 1), torch.rand(8))),
    ("dimensions are not kept", lambda x, w: rms(x, w, mean=lambda y: y.mean(-1)), (torch.randn(8, 8), WEIGHT)),
    ("two dimensions", lambda x, w: rms(x, w, mean=lambda y: y.mean((1, 2), True)), (X, WEIGHT)),
    ("the dimension before", lambda x, w: rms(x, w, mean=lambda y: y.mean(1, keepdim=True)), (X, WEIGHT)),
    ("the first of one dimension less", lambda x, w: rms(x, w, mean=lambda y: y.mean(0, keepdim=True)), (X, WEIGHT)),
    ("all", lambda x, w: rms(x, w, mean=lambda y: y.mean()), (X, WEIGHT)),
    ("the cube", lambda x, w: rms(x, w, power=lambda y: y.abs().pow(3)), (X, WEIGHT)),
    ("scaled epsilon", lambda x, w: rms(x, w, root=lambda y: torch.rsqrt(torch.add(y, 1e-2, alpha=2))), (X, WEIGHT)),
    ("another result", lambda x, w: (w * ((y := x.float()) * torch.rsqrt(y.pow(2).mean(-1, True) + 1e-2)).bfloat16()), (X.half(),
                                                                                                              WEIGHT.half())),
], ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_no_rms_norm(name, function, tensors):
    untouched(function, *tensors)


def test_a_sum_before_the_norm():
    def block(x, residual, weight):
        total = x + residual
        return rms(total, weight), total

    with torch.no_grad():
        calls, counted = run(block, X, torch.randn(2, 3, 8), WEIGHT)
        assert calls == {"npu_add_rms_norm": 1, "getitem": 2} and counted == {"rms_norm": 1, "add_rms_norm": 1}
        calls, counted = run(lambda x, y, w: block(x, y, w), X, torch.randn(8), WEIGHT)  # another shape
        assert calls == {"add": 1, **NORM} and counted == {"rms_norm": 1}
        calls, counted = run(lambda x, y, w: rms(t := x + y, (w * 2)) + t, X, torch.randn(2, 3, 8), WEIGHT)  # a weight that comes later
        assert "npu_add_rms_norm" not in calls and counted == {"rms_norm": 1}
    calls, counted = run(block, X, torch.randn(2, 3, 8), WEIGHT.npu().requires_grad_())  # it has no gradient
    assert calls == {"add": 1, **NORM} and counted == {"rms_norm": 1}


# ---- Rotary embedding ----

Q, COS = torch.randn(2, 3, 6, 8), torch.rand(1, 1, 6, 8)
SIN = COS.cos()
ROTARY = {"npu_rotary_mul": 1}


def slices(x):
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]


TURNS = {
    "slices": lambda x: torch.cat((-slices(x)[1], slices(x)[0]), dim=-1),
    "chunk": lambda x: (lambda halves: torch.cat([-halves[1], halves[0]], -1))(x.chunk(2, dim=-1)),
    "torch.chunk": lambda x: (lambda halves: torch.concat([torch.neg(halves[1]), halves[0]], dim=3))(torch.chunk(x, 2, 3)),
    "split": lambda x: (lambda halves: torch.cat([halves[1].neg(), halves[0]], -1))(x.split(4, dim=-1)),
    "sections": lambda x: (lambda halves: torch.cat([halves[1].negative(), halves[0]], -1))(torch.split(x, [4, 4], -1)),
}
SUMS = {"operator": lambda a, b: a + b, "the other order": lambda a, b: b + a, "torch": lambda a, b: torch.add(a, b),
        "method": lambda a, b: a.add(b)}


@pytest.mark.parametrize("turn", TURNS)
def test_spellings_of_the_rotation(turn):
    only(lambda x, cos, sin: x * cos + TURNS[turn](x) * sin, (Q, COS, SIN), ROTARY, "rotate")


@pytest.mark.parametrize("sums", SUMS)
def test_sums_of_the_rotation(sums):
    only(lambda x, cos, sin: SUMS[sums](cos * x, sin * TURNS["chunk"](x)), (Q, COS, SIN), ROTARY, "rotate")


@pytest.mark.parametrize("name, function, tensors", [
    ("three dimensions", lambda x, c, s: x * c + TURNS["chunk"](x) * s, (Q[0], COS[0], SIN[0])),
    ("angles of three dimensions", lambda x, c, s: x * c + TURNS["chunk"](x) * s, (Q, COS[0], SIN[0])),
    ("angles of two shapes", lambda x, c, s: x * c + TURNS["chunk"](x) * s, (Q, COS, SIN.repeat(2, 1, 1, 1))),
    ("angles of another type", lambda x, c, s: x.float() * c + TURNS["chunk"](x.float()) * s, (Q, COS.half(), SIN.half())),
    ("a sine of another type", lambda x, c, s: x * c + TURNS["chunk"](x) * s, (Q, COS, SIN.half())),
    ("float64", lambda x, c, s: x * c + TURNS["chunk"](x) * s, (Q.double(), COS.double(), SIN.double())),
    ("numbers as angles", lambda x: x * 0.6 + TURNS["chunk"](x) * 0.8, (Q,)),
    ("slices of another size", lambda x, c, s: x * c + torch.cat((-x[..., 2:], x[..., :2]), -1) * s, (Q, COS, SIN)),
    ("the first slice alone is a half", lambda x, c, s: x * c + torch.cat((-x[..., 4:8], x[..., :4]), -1) * s, (Q, COS, SIN)),
    ("the second slice alone is a half", lambda x, c, s: x * c + torch.cat((-x[..., 4:], x[..., 0:4]), -1) * s, (Q, COS, SIN)),
    ("another dimension", lambda x, c, s: x * c + (lambda h: torch.cat((-h[1], h[0]), 2))(x.chunk(2, 2)) * s, (Q, COS, SIN)),
    ("joined elsewhere", lambda x, c, s: x * c + (lambda h: torch.cat((-h[1], h[0]), 1).view(x.shape))(x.chunk(2, -1)) * s, (Q, COS, SIN)),
    ("a third", lambda x, c, s: x * c + (lambda h: torch.cat((-h[1], h[0]), -1))(x.split([3, 5], -1)) * s,
     (Q, COS, SIN)),
    ("a difference", lambda x, c, s: x * c - TURNS["chunk"](x) * s, (Q, COS, SIN)),
    ("a factor in the sum", lambda x, c, s: torch.add(x * c, TURNS["chunk"](x) * s, alpha=2), (Q, COS, SIN)),
], ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_no_rotation(name, function, tensors):
    untouched(function, *tensors)


# ---- Gated units ----

PRODUCTS = {"operator": lambda a, b: a * b, "the other order": lambda a, b: b * a, "torch.mul": lambda a, b: torch.mul(a, b),
            "torch.multiply": lambda a, b: torch.multiply(a, b), "mul": lambda a, b: a.mul(b), "multiply": lambda a, b: a.multiply(b)}
HALVES = {"method": lambda x: x.chunk(2, -1), "torch": lambda x: torch.chunk(x, 2, dim=2), "split": lambda x: x.split(4, -1),
          "list": lambda x: x.split([4, 4], 2), "torch.split": lambda x: torch.split(x, 4, dim=-1),
          "tuple": lambda x: torch.split(x, (4, 4), dim=-1)}


@pytest.mark.parametrize("product, dtype", [*((product, torch.float32) for product in PRODUCTS), ("operator", torch.float16),
                                            ("operator", torch.bfloat16)])
def test_products_of_gated_units(product, dtype):
    def gated(x):
        gate, up = x.chunk(2, -1)
        return PRODUCTS[product](F.silu(gate), up)

    only(gated, (X.to(dtype),), {"npu_swiglu": 1}, "swiglu")


@pytest.mark.parametrize("halves", HALVES)
def test_halves_of_gated_units(halves):
    def silu(x):
        gate, up = HALVES[halves](x)
        return F.silu(gate) * up

    def gelu(x):
        up, gate = HALVES[halves](x)
        return up * F.gelu(gate)

    only(silu, (X,), {"npu_swiglu": 1}, "swiglu")
    only(gelu, (X,), {"npu_geglu": 1, "getitem": 1}, "geglu")


def gate(x, function, chunks=2, dim=-1, first=0, second=1):
    parts = x.chunk(chunks, dim)
    return function(parts[first]) * parts[second]


@pytest.mark.parametrize("name, function, dtype", [
    ("float64", lambda x: gate(x, F.silu), torch.float64),
    ("gelu of float64", lambda x: gate(x, F.gelu, 2, -1, 1, 0), torch.float64),
    ("another dimension", lambda x: gate(x, F.silu, dim=1), torch.float32),
    ("the first dimension", lambda x: gate(x, F.silu, dim=0), torch.float32),
    ("the first dimension by default", lambda x: (lambda h: F.silu(h[0]) * h[1])(x.chunk(2)), torch.float32),
    ("split by default", lambda x: (lambda h: F.silu(h[0]) * h[1])(x.split(2)), torch.float32),
    ("three parts", lambda x: gate(x, F.silu, 3, 1, 0, 1), torch.float32),
    ("a half twice", lambda x: gate(x, F.silu, 2, -1, 0, 0), torch.float32),
    ("gelu of the first half", lambda x: gate(x, F.gelu), torch.float32),
    ("silu of the second half", lambda x: gate(x, F.silu, 2, -1, 1, 0), torch.float32),
    ("gelu by tanh", lambda x: gate(x, lambda y: F.gelu(y, approximate="tanh"), 2, -1, 1, 0), torch.float32),
    ("sections of other sizes", lambda x: (lambda h: F.silu(h[0][..., :2]) * h[1])(x.split([6, 2], -1)), torch.float32),
    ("quarters", lambda x: (lambda h: F.silu(h[0]) * h[1])(x.split(2, -1)), torch.float32),
    ("relu", lambda x: gate(x, F.relu), torch.float32),
    ("in place", lambda x: gate(x * 1, lambda y: F.silu(y, inplace=True)), torch.float32),
], ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_no_gated_unit(name, function, dtype):
    untouched(function, torch.randn(4, 6, 8).to(dtype))


# ---- Attention ----

KEY, VALUE, MASK = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 8), torch.randn(2, 3, 6, 5)
TRANSPOSED = {"-2, -1": lambda k: k.transpose(-2, -1), "-1, -2": lambda k: k.transpose(-1, -2), "2, 3": lambda k: torch.transpose(k, 2, 3),
              "3, -2": lambda k: torch.swapaxes(k, 3, -2), "method": lambda k: k.swapaxes(2, -1)}
MATMULS = {"operator": lambda a, b: a @ b, "torch": lambda a, b: torch.matmul(a, b), "method": lambda a, b: a.matmul(b)}
SCALED = {"none": lambda s: s, "factor": lambda s: s * 0.25, "factor first": lambda s: 0.25 * s, "an integer": lambda s: s * 2,
          "divided": lambda s: s / 3, "torch.div": lambda s: torch.div(s, math.sqrt(8)), "method": lambda s: s.div(4.0),
          "true_divide": lambda s: torch.true_divide(s, 4.0), "methods": lambda s: s.true_divide(2)}
SOFTMAXES = {"functional": lambda s: F.softmax(s, dim=-1), "torch": lambda s: torch.softmax(s, -1), "method": lambda s: s.softmax(3),
             "of its type": lambda s: F.softmax(s, -1, dtype=s.dtype), "keyword": lambda s: s.softmax(dim=-1),
             "dropout that is off": lambda s: F.dropout(s.softmax(-1), 0.5, training=False),
             "dropout of nothing": lambda s: F.dropout(s.softmax(-1), p=0.0),
             "torch.dropout": lambda s: torch.dropout(s.softmax(-1), 0.5, False)}
ATTENTION = {"scaled_dot_product_attention": 1}


def attend(q, k, v, mask=None, transposed=TRANSPOSED["2, 3"], matmul=MATMULS["operator"], scaled=SCALED["factor"],
           softmax=SOFTMAXES["torch"]):
    scores = scaled(matmul(q, transposed(k)))
    return matmul(softmax(scores if mask is None else scores + mask), v)


@pytest.mark.parametrize("options", [{part: spelling} for part, spellings in (("transposed", TRANSPOSED), ("matmul", MATMULS),
                                                                              ("scaled", SCALED), ("softmax", SOFTMAXES))
                                     for spelling in spellings.values()])
def test_spellings_of_attention(options):
    only(lambda q, k, v: attend(q, k, v, **options), (Q, KEY, VALUE), ATTENTION, "attention")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_attention_with_a_mask(dtype):
    tensors = [t.to(dtype) for t in (Q, KEY, VALUE, MASK)]
    only(attend, tensors, ATTENTION, "attention")
    only(lambda q, k, v, m: (m + q @ k.transpose(2, 3) / 2).softmax(-1) @ v, tensors, ATTENTION, "attention")
    only(lambda q, k, v, m: F.softmax(q @ k.transpose(2, 3) + m, dim=-1, dtype=torch.float32).to(q.dtype) @ v, tensors, ATTENTION,
         "attention")


@pytest.mark.parametrize("name, function, tensors", [
    ("float64", attend, (Q.double(), KEY.double(), VALUE.double())),
    ("three dimensions", lambda q, k, v: attend(q, k, v, transposed=TRANSPOSED["-2, -1"]), (Q[0], KEY[0], VALUE[0])),
    ("a key for every head", attend, (Q, KEY[:, :1], VALUE[:, :1])),
    ("a key for every batch", attend, (Q, KEY[:1], VALUE[:1])),
    ("a value for every head", attend, (Q, KEY, VALUE[:, :1])),
    ("a value for every batch", attend, (Q, KEY, VALUE[:1])),
    ("a query for every head", attend, (Q[:, :1], KEY, VALUE)),
    ("a tensor as the scale", lambda q, k, v, s: attend(q, k, v, scaled=lambda x: x * s), (Q, KEY, VALUE, torch.tensor(0.5))),
    ("a tensor as the divisor", lambda q, k, v, s: attend(q, k, v, scaled=lambda x: x / s), (Q, KEY, VALUE, torch.tensor(0.5))),
    ("a mask that is a number", lambda q, k, v: attend(q, k, v, 1.0), (Q, KEY, VALUE)),
    ("a mask of another type", lambda q, k, v, m: attend(q, k, v, m), (Q, KEY, VALUE, MASK.half())),
    ("a mask with a gradient", lambda q, k, v, m: attend(q, k, v, m), (Q, KEY, VALUE, MASK.npu().requires_grad_())),
    ("another dimension of softmax", lambda q, k, v: attend(q, k, v, softmax=lambda s: s.softmax(-2)), (Q, KEY, VALUE)),
    ("the second dimension of softmax", lambda q, k, v: attend(q, k, v, softmax=lambda s: s.softmax(1)), (Q, KEY, VALUE)),
    ("other dimensions transposed", lambda q, k, v: attend(q, k, v, transposed=lambda k: k.transpose(1, 2)),
     (torch.randn(2, 5, 3, 8), torch.randn(2, 8, 5, 5), torch.randn(2, 5, 5, 7))),
    ("dropout", lambda q, k, v: (attend(q, k, v, softmax=lambda s: F.dropout(s.softmax(-1), 1.0))), (Q, KEY, VALUE)),
    ("dropout by default", lambda q, k, v: attend(q, k, v, softmax=lambda s: F.dropout(s.softmax(-1)) * 0), (Q, KEY, VALUE)),
    ("an infinite scale", lambda q, k, v: attend(q, k, v, scaled=lambda s: (s * math.inf)).nan_to_num(), (Q, KEY, VALUE)),
    ("divided by zero", lambda q, k, v: attend(q, k, v, scaled=lambda s: (s / 0)).nan_to_num(), (Q, KEY, VALUE)),
    ("rounded", lambda q, k, v: attend(q, k, v, scaled=lambda s: torch.div(s, 2, rounding_mode="floor")), (Q, KEY, VALUE)),
], ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_no_attention(name, function, tensors):
    calls, counted = run(function, *tensors)
    assert not counted


# ---- Softmax with a mask ----

BITS = torch.rand(2, 1, 8, 32) > 0.7
LARGE = torch.randn(2, 3, 8, 32).half()


@pytest.mark.parametrize("function", [
    lambda x, m: x.masked_fill(m, -10000.0).softmax(-1), lambda x, m: torch.masked_fill(x, m, -10000.0).softmax(3),
    lambda x, m: F.softmax((x * 0.5).masked_fill(m, -10000.0), dim=-1), lambda x, m: (3 * x).masked_fill(m, -10000.0).softmax(-1)])
def test_spellings_of_a_masked_softmax(function):
    only(function, (LARGE, BITS), {"npu_scaled_masked_softmax": 1}, "masked_softmax")


def test_a_tensor_as_the_scale_of_a_masked_softmax():
    calls, _ = run(lambda x, m, s: (x * s).masked_fill(m, -10000.0).softmax(-1), LARGE, BITS, torch.tensor(2.0).half())
    assert calls == {"mul": 1, "npu_scaled_masked_softmax": 1}


@pytest.mark.parametrize("name, function, tensors", [
    ("three dimensions", lambda x, m: x.masked_fill(m, -10000.0).softmax(-1), (LARGE[0], BITS[0])),
    ("another value", lambda x, m: x.masked_fill(m, -9999.0).softmax(-1), (LARGE, BITS)),
    ("a large value", lambda x, m: x.masked_fill(m, 10000.0).softmax(-1), (LARGE, BITS)),
    ("another dimension", lambda x, m: x.masked_fill(m, -10000.0).softmax(1), (LARGE, BITS)),
    ("float64", lambda x, m: x.masked_fill(m, -10000.0).softmax(-1), (LARGE.double(), BITS)),
], ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_no_masked_softmax(name, function, tensors):
    untouched(function, *tensors)


# ---- Group norm and losses ----

IMAGE = torch.randn(2, 4, 6, 6)


def test_group_norm_before_silu():
    def normed(x, weight, bias):
        return F.silu(F.group_norm(x, 2, weight, bias, 1e-3))

    weight, bias = torch.rand(4), torch.randn(4)
    only(normed, (IMAGE, weight, bias), {"npu_group_norm_silu": 1, "getitem": 1}, "group_norm_silu")
    untouched(normed, IMAGE.double(), weight.double(), bias.double())
    untouched(normed, IMAGE, weight.npu().requires_grad_(), bias)
    untouched(lambda x, w, b: F.silu(F.group_norm(x * 1, 2, w, b, 1e-3), inplace=True), IMAGE, weight, bias)


LOGITS, TARGET = torch.randn(5, 6), torch.tensor([0, 1, 5, 3, 1])


@pytest.mark.parametrize("options", [{}, {"reduction": "sum"}, {"reduction": "none"}, {"ignore_index": 1}, {"label_smoothing": 0.2}])
def test_losses(options):
    only(lambda x, t: F.cross_entropy(x, t, **options), (LOGITS, TARGET), {"cross_entropy": 1}, "cross_entropy")
    only(lambda x, t: F.cross_entropy(x, t, **options), (LOGITS, TARGET.int()), {"cross_entropy": 1}, "cross_entropy")


def test_the_target_that_is_ignored_by_default():
    target = torch.tensor([0, -100, 1, 5, -100])
    only(lambda x, t: F.cross_entropy(x, t), (LOGITS, target), {"cross_entropy": 1}, "cross_entropy")


@pytest.mark.parametrize("name, function, tensors", [
    ("probabilities", lambda x, t: F.cross_entropy(x, t), (LOGITS, torch.rand(5, 6).softmax(-1))),
    ("float64", lambda x, t: F.cross_entropy(x, t), (LOGITS.double(), TARGET)),
    ("one row", lambda x, t: F.cross_entropy(x, t), (LOGITS[0], TARGET[0])),
    ("an image", lambda x, t: F.cross_entropy(x, t), (torch.randn(2, 6, 3), torch.tensor([[0, 1, 2], [3, 4, 5]]))),
    ("a weight", lambda x, t, w: F.cross_entropy(x, t, w), (LOGITS, TARGET, torch.rand(6))),
], ids=lambda value: value if isinstance(value, str) else "")
def test_other_losses(name, function, tensors):
    calls, counted = run(function, *tensors)
    assert not counted


@pytest.mark.filterwarnings("ignore:.*size_average")
@pytest.mark.parametrize("options", [{"size_average": False}, {"reduce": False}, {"size_average": True, "reduce": True}])
def test_older_arguments_of_a_loss(options):
    calls, counted = run(lambda x, t: F.cross_entropy(x, t, **options), LOGITS, TARGET)
    assert not counted


# ---- What lies between ----

@pytest.mark.parametrize("between", [
    lambda x: x.add_(1), lambda x: x.__setitem__(0, 1.0), lambda x: operator.iadd(x, 1), lambda x: F.relu(x, inplace=True),
    lambda x: operator.imul(x, 2), lambda x: operator.itruediv(x, 2), lambda x: operator.isub(x, 2)])
def test_a_change_in_place_ends_a_chain(between):
    def changed(x, w):
        y = x * 1
        root = torch.rsqrt(y.pow(2).mean(-1, True) + 1e-2)
        between(y)
        return w * (y * root)

    untouched(changed, X, WEIGHT)


def test_a_change_before_or_behind_a_chain_does_not():
    def changed(x, w):
        y = (x * 1).add_(1)
        y.mul_(2)
        return rms(y, w).sub_(1)

    calls, counted = run(changed, X, WEIGHT)
    assert counted == {"rms_norm": 1}


def test_autocast_ends_a_chain():
    def changed(x, w):
        with torch.autocast("npu", torch.float16):
            root = torch.rsqrt(x.pow(2).mean(-1, True) + 1e-2)
        return w * (x * root)

    untouched(changed, X, WEIGHT)


def test_a_graph_of_the_cpu_is_left_alone():
    graphs = []

    def backend(model, inputs):
        code = model.code
        fusions.apply(model)
        graphs.append(model.code == code)
        return model.forward

    torch.compile(rms, backend=backend)(X, WEIGHT)
    assert graphs == [True]


def test_calls_on_other_devices_are_not_respelled():
    calls, _ = run(lambda x: (torch.arange(4.0).square().sum() + 1).to("npu") + x.square(), X)
    assert calls["square"] == 1 and calls["pow"] == 1
