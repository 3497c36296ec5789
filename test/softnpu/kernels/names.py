"""Cases of the aclnn names that our adapter does not call: older versions of operators, names for graphs, names of operators that torch
composes. `CASES` maps a name to functions that call it and compare its result with plain torch."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from abi_calls import by_name, call

import torch_npu

CASES: dict[str, list] = {}
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def case(*names):
    def add(function):
        for name in names:
            CASES.setdefault(name, []).append(function)
        return function

    return add


def numbers(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype)


def close(got: torch.Tensor, want: torch.Tensor, **tolerances) -> None:
    torch.testing.assert_close(got.cpu(), want.to(got.dtype) if want.dtype != got.dtype else want, **tolerances)


def results(name, inputs, *outputs):
    """The outputs, of the shapes and types of the plain tensors `outputs`, after a call of `name` with `inputs` in front of them."""
    made = [torch.full_like(o, 7).npu() if o.dtype != torch.bool else torch.zeros_like(o).npu() for o in outputs]
    call(name, *[move(i) for i in inputs], *made)
    return made


def move(value):
    if isinstance(value, torch.Tensor):
        return value.npu()
    return [move(v) for v in value] if isinstance(value, list) and value and isinstance(value[0], torch.Tensor) else value


def compare(name, inputs, *want, **tolerances):
    for got, expected in zip(results(name, inputs, *want), want):
        close(got, expected, **tolerances)


# ---- elementwise ----


@case("aclnnBucketize")
def bucketize(name):
    edges, x = torch.tensor([-1.0, 0.0, 0.5]), torch.tensor([[-2.0, -1.0, 0.2], [0.5, 3.0, math.inf]])
    for right in (False, True):
        compare(name, [x, edges, False, right], torch.bucketize(x, edges, right=right))
        compare(name, [x, edges, True, right], torch.bucketize(x, edges, out_int32=True, right=right))


@case("aclnnIsFinite")
def is_finite(name):
    x = torch.tensor([1.0, math.inf, -math.inf, math.nan, 0.0])
    compare(name, [x], torch.isfinite(x))


@case("aclnnIsClose")
def is_close(name):
    a, b = torch.tensor([1.0, 2.0, math.nan, 4.0]), torch.tensor([1.0 + 1e-6, 2.1, math.nan, 4.0])
    for equal_nan in (False, True):
        compare(name, [a, b, 1e-5, 1e-8, equal_nan], torch.isclose(a, b, 1e-5, 1e-8, equal_nan))


@case("aclnnGelu")
def gelu(name):
    for dtype in FLOATS:
        x = numbers(3, 5, dtype=dtype)
        compare(name, [x], F.gelu(x))


@case("aclnnGeluBackward")
def gelu_backward(name):
    grad, x = numbers(3, 5), numbers(3, 5, seed=1)
    compare(name, [grad, x], torch.ops.aten.gelu_backward(grad, x))


@case("aclnnLogSigmoid")
def log_sigmoid(name):
    for dtype in FLOATS:
        x = numbers(3, 5, dtype=dtype)
        compare(name, [x], F.logsigmoid(x))


@case("aclnnCdistBackward")
def cdist_backward_of_the_largest_coordinate(name):
    """The official client says p = -1."""
    grad, a, b = numbers(2, 3), numbers(2, 4, seed=1), numbers(3, 4, seed=2)
    distances = torch.cdist(a, b, p=math.inf)
    compare(name, [grad, a, b, distances, -1.0], torch.ops.aten._cdist_backward(grad, a, b, math.inf, distances))


@case("aclnnHardswishBackward", "aclnnHardswishBackwardV2")
def hardswish_backward(name):
    grad, x = numbers(3, 5), numbers(3, 5, seed=1) * 4
    compare(name, [grad, x], torch.ops.aten.hardswish_backward(grad, x))


@case("aclnnInplaceOne")
def one(name):
    x = numbers(3, 4).npu().t()
    call(name, x)
    close(x, torch.ones(4, 3))


# ---- products and factorisations ----


@case("aclnnMatmul")
def matmul(name):
    for a, b in ((numbers(3, 4), numbers(4, 5)), (numbers(2, 3, 4), numbers(4)), (numbers(2, 1, 3, 4), numbers(5, 4, 2))):
        out = torch.zeros_like(a @ b).npu()
        call(name, a.npu(), b.npu(), out, 0)
        close(out, a @ b)


@case("aclnnInverse")
def inverse(name):
    x = numbers(2, 4, 4) + 4 * torch.eye(4)
    compare(name, [x], torch.linalg.inv(x))


@case("aclnnLinalgCholesky")
def cholesky(name):
    x = numbers(2, 4, 4)
    x = x @ x.mT + torch.eye(4)
    for upper in (False, True):
        compare(name, [x, upper], torch.linalg.cholesky(x, upper=upper))


@case("aclnnSlogdet")
def slogdet(name):
    x = numbers(3, 4, 4)
    compare(name, [x], *torch.linalg.slogdet(x))


@case("aclnnAddLora")
def add_lora(name):
    for dtype in FLOATS:
        y, x = numbers(5, 12, dtype=dtype), numbers(5, 6, dtype=dtype, seed=1)
        a, b = numbers(2, 3, 4, 6, dtype=dtype, seed=2), numbers(2, 3, 8, 4, dtype=dtype, seed=3)
        indices = torch.tensor([0, 1, 1, 1, 0], dtype=torch.int32)
        want = y.float().clone()
        for row, adapter in enumerate(indices.tolist()):
            want[row, 2:10] += 0.5 * (b[adapter, 1].float() @ (a[adapter, 1].float() @ x[row].float()))
        compare(name, [y, x, b, indices, a, 1, 0.5, 2, 8], want.to(dtype), rtol=2e-2, atol=2e-2)
        alone = y.float().clone()
        alone[:, 2:10] += 2 * torch.einsum("roi,ri->ro", b[indices.long(), 0].float(), x[:, :4].float())
        compare(name, [y, x[:, :4], b, indices, None, 0, 2.0, 2, 8], alone.to(dtype), rtol=2e-2, atol=2e-2)


# ---- indexing ----


@case("aclnnIndexFillTensor")
def index_fill(name):
    x = numbers(4, 5)
    compare(name, [x, 1, [0, 3], 2.5], x.index_fill(1, torch.tensor([0, 3]), 2.5))


@case("aclnnInplaceIndexFillTensor")
def index_fill_(name):
    x = numbers(4, 5)
    y = x.npu()
    call(name, y, 0, [1, 2], 2.5)
    close(y, x.index_fill(0, torch.tensor([1, 2]), 2.5))


@case("aclnnInplaceFillDiagonal")
def fill_diagonal(name):
    for wrap in (False, True):
        x = numbers(7, 3)
        y = x.npu()
        call(name, y, 2.5, wrap)
        close(y, x.clone().fill_diagonal_(2.5, wrap))


@case("aclnnNonzeroV2")
def nonzero(name):
    x = torch.tensor([[0, 3, 0], [1, 0, 2]])
    out = torch.zeros(2, 6, dtype=torch.int64, device="npu")
    shape = call(name, x.npu(), out)[-1]
    want = torch.stack(torch.nonzero(x, as_tuple=True))
    assert shape == list(want.shape)
    close(out.flatten()[: want.numel()].view(want.shape), want)


@case("aclnnOneHot")
def one_hot(name):
    x = torch.tensor([[0, 2], [1, 3]])
    on, off = torch.tensor([5.0]), torch.tensor([-1.0])
    hits = F.one_hot(x, 4).bool()
    compare(name, [x, 4, on, off, -1], torch.where(hits, on, off))
    compare(name, [x, 4, on, off, 1], torch.where(hits, on, off).movedim(-1, 1))


@case("aclnnRepeatInterleave")
def repeat_interleave(name):
    x, repeats = numbers(2, 3), torch.tensor([0, 2, 1, 1, 0, 3])
    want = torch.repeat_interleave(x, repeats)
    compare(name, [x, repeats, want.numel()], want)


@case("aclnnRepeatInterleaveInt")
def repeat_interleave_int(name):
    x = numbers(2, 3)
    want = torch.repeat_interleave(x, 3)
    compare(name, [x, 3, want.numel()], want)


@case("aclnnRepeatInterleaveIntWithDim")
def repeat_interleave_int_dim(name):
    x = numbers(2, 3)
    want = torch.repeat_interleave(x, 3, 1)
    compare(name, [x, 3, 1, want.size(1)], want)


@case("aclnnRepeatInterleaveWithDim")
def repeat_interleave_dim(name):
    x, repeats = numbers(2, 3), torch.tensor([2, 0, 1])
    want = torch.repeat_interleave(x, repeats, 1)
    compare(name, [x, repeats, 1, want.size(1)], want)


@case("aclnnStridedSlice")
def strided_slice(name):
    x = numbers(4, 5, 6)
    compare(name, [x, [1, 0, 2], [4, 5, 6], [2, 1, 3], 0, 0, 0, 0, 0], x[1:4:2, :, 2:6:3])
    compare(name, [x, [1, -3], [9, -1], [1, 1], 0b01, 0b10, 0, 0, 0], x[:9, -3:])
    compare(name, [x, [4, 3], [0, -9], [-1, -2], 0, 0b10, 0, 0, 0], x.flip(0)[:3].flip(1)[:, 1::2])
    compare(name, [x, [0, 0, 1], [0, 0, 4], [1, 1, 1], 0, 0, 0b001, 0b010, 0], x[..., None, 1:4])
    compare(name, [x, [2, 1], [3, 4], [1, 1], 0, 0, 0, 0, 0b01], x[2, 1:4])


@case("aclnnCoalesceSparse")
def coalesce(name):
    indices = torch.tensor([[0, 1, 0, 2], [1, 1, 1, 0]])
    for values in (numbers(4), numbers(4, 3)):
        sparse = torch.sparse_coo_tensor(indices, values, (3, 2, *values.shape[1:]))
        unique, inverse = torch.unique(indices[0] * 2 + indices[1], return_inverse=True)
        want = sparse.coalesce()
        compare(name, [unique.int(), inverse.int(), indices.t().contiguous().int(), values], want.indices().t().int(), want.values())


# ---- networks ----


@case("aclnnL1Loss")
def l1_loss(name):
    x, y = numbers(3, 4), numbers(3, 4, seed=1)
    for reduction, text in enumerate(("none", "mean", "sum")):
        compare(name, [x, y, reduction], F.l1_loss(x, y, reduction=text))


@case("aclnnKlDiv")
def kl_div(name):
    x, y = F.log_softmax(numbers(3, 4), 1), F.softmax(numbers(3, 4, seed=1), 1)
    for reduction, text in enumerate(("none", "mean", "sum")):
        compare(name, [x, y, reduction, False], F.kl_div(x, y, reduction=text))
        compare(name, [x, y.log(), reduction, True], F.kl_div(x, y.log(), reduction=text, log_target=True))


@case("aclnnMaxPool2dWithMask", "aclnnMaxPool2dWithMaskBackward")
def max_pool2d(name):
    x = numbers(2, 3, 6, 6).requires_grad_()
    want = F.max_pool2d(x, 2, 2)
    grad = numbers(2, 3, 3, 3, seed=1)
    out, mask = torch.zeros(2, 3, 3, 3, device="npu"), torch.zeros(2, 3, 4, 64, dtype=torch.int8, device="npu")
    call("aclnnMaxPool2dWithMask", x.detach().npu(), [2, 2], [2, 2], [0, 0], [1, 1], False, out, mask)
    close(out, want.detach())
    want.backward(grad)
    grad_input = torch.zeros(2, 3, 6, 6, device="npu")
    call("aclnnMaxPool2dWithMaskBackward", grad.npu(), x.detach().npu(), mask, [2, 2], [2, 2], [0, 0], [1, 1], False, grad_input)
    close(grad_input, x.grad)


@case("aclnnUpsampleNearest1d")
def upsample1d(name):
    x = numbers(2, 3, 4)
    compare(name, [x, [7]], F.interpolate(x, size=7))


@case("aclnnUpsampleNearest2d")
def upsample2d(name):
    x = numbers(2, 3, 4, 5)
    compare(name, [x, [7, 9]], F.interpolate(x, size=(7, 9)))


@case("aclnnUpsampleBilinear2dBackward")
def upsample_bilinear_backward(name):
    grad = numbers(2, 3, 7, 9)
    for corners in (False, True):
        want = torch.ops.aten.upsample_bilinear2d_backward(grad, [7, 9], [2, 3, 4, 5], corners)
        compare(name, [grad, [7, 9], [2, 3, 4, 5], corners, 0.0, 0.0], want)


@case("aclnnFastLayerNorm")
def layer_norm(name):
    for dtype in FLOATS:
        x, weight, bias = numbers(3, 4, 5, dtype=dtype), numbers(5, dtype=dtype, seed=1), numbers(5, dtype=dtype, seed=2)
        for w, b in ((weight, bias), (None, None)):
            want = F.layer_norm(x.float(), [5], None if w is None else w.float(), None if b is None else b.float(), 1e-5)
            mean, var = x.float().mean(-1, True), x.float().var(-1, unbiased=False, keepdim=True)
            compare(name, [x, [5], w, b, 1e-5], want.to(dtype), mean, (var + 1e-5).rsqrt(), rtol=1e-2, atol=1e-2)


@case("aclnnConvTbcBackward")
def conv_tbc_backward(name):
    x, weight, bias, grad = numbers(6, 2, 3), numbers(3, 3, 4, seed=1), numbers(4, seed=2), numbers(6, 2, 4, seed=3)
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    torch.conv_tbc(*leaves, 1).backward(grad)
    outputs = [torch.zeros_like(t).npu() for t in leaves]
    call(name, grad.npu(), x.npu(), weight.npu(), bias.npu(), 1, 0, *outputs)
    for got, leaf in zip(outputs, leaves):
        close(got, leaf.grad, rtol=1e-4, atol=1e-4)


@case("aclnnConvDepthwise2d")
def depthwise(name):
    x, weight, bias = numbers(2, 3, 7, 6), numbers(6, 1, 3, 2, seed=1), numbers(6, seed=2)
    for b in (bias, None):
        want = F.conv2d(x, weight, b, [2, 1], [1, 0], [1, 2], 3)
        out = torch.zeros_like(want).npu()
        call(name, x.npu(), weight.npu(), [3, 2], move(b), [2, 1], [1, 0], [1, 2], out, 0)
        close(out, want)


@case("aclnnFakeQuantPerTensorAffineCachemask")
def fake_quantize(name):
    x, scale, zero = numbers(4, 5) * 20, torch.tensor([0.1]), torch.tensor([3], dtype=torch.int32)
    for enabled in (1.0, 0.0):
        want = torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(x, scale, zero, torch.tensor([enabled]), -128, 127)
        compare(name, [x, scale, zero, enabled, -128, 127], *want)


@case("aclnnSyncBatchNormGatherStats")
def gather_sums(name):
    batches = [numbers(n, 3, 4, seed=n) for n in (2, 5)]
    everything = torch.cat(batches).movedim(1, 0).flatten(1)
    sums = torch.stack([b.sum((0, 2)) for b in batches])
    squares = torch.stack([b.square().sum((0, 2)) for b in batches])
    counts = torch.tensor([8, 20], dtype=torch.int32)
    mean, var = numbers(3, seed=9).npu(), torch.rand(3).npu()
    want_mean = mean.cpu() * 0.9 + everything.mean(1) * 0.1
    want_var = var.cpu() * 0.9 + everything.var(1, unbiased=False) * 0.1
    out = torch.zeros(3, device="npu"), torch.zeros(3, device="npu")
    call(name, sums.npu(), squares.npu(), counts.npu(), mean, var, 0.1, 1e-5, *out)
    close(out[0], everything.mean(1))
    close(out[1], (everything.var(1, unbiased=False) + 1e-5).rsqrt(), rtol=1e-4, atol=1e-4)
    close(mean, want_mean)
    close(var, want_var)


@case("aclnnBatchNormReduce")
def batch_sums(name):
    x = numbers(4, 3, 5)
    compare(name, [x], x.sum((0, 2)), x.square().sum((0, 2)))


# ---- spectra ----


@case("aclRfft1D")
def rfft(name):
    x = numbers(3, 8, 4)
    for mode, norm in ((1, "backward"), (2, "forward"), (3, "ortho")):
        for length, dim in ((8, 1), (5, 1), (6, 2)):
            compare(name, [x, length, dim, mode], torch.view_as_real(torch.fft.rfft(x, length, dim, norm)))


@case("aclStft")
def stft(name):
    x, window = numbers(2, 64), torch.hann_window(12)
    for signal in (x, x[0]):
        for normalized, onesided in ((False, True), (True, False)):
            for w in (window, None):
                want = torch.stft(signal, 16, 4, 12, w, center=False, normalized=normalized, onesided=onesided, return_complex=True)
                for complex_ in (True, False):
                    shaped = want if complex_ else torch.view_as_real(want).contiguous()
                    out = torch.zeros_like(shaped).npu()
                    call(name, signal.npu(), move(w), out, 16, 4, 12, normalized, onesided, complex_)
                    close(out, shaped, rtol=1e-4, atol=1e-4)


# ---- random numbers: names that take seed and offset from the card give what those with numbers give ----


def state(seed, offset):
    return torch.tensor([seed], device="npu"), torch.tensor([offset], device="npu")


@case("aclnnInplaceUniformTensor", "aclnnInplaceNormalTensor", "aclnnInplaceRandomTensor")
def from_card(name):
    plain = name.removesuffix("Tensor")
    for limits in ((0.25, 0.75),) if "Random" not in name else ((3, 17),):
        a, b = torch.zeros(1000, device="npu"), torch.zeros(1000, device="npu")
        call(plain, a, *limits, 7, 48)
        call(name, b, *limits, *state(7, 40), 8)
        assert torch.equal(a, b) and a.unique().numel() > 10
        if "Normal" in name:
            assert abs(float(b.mean()) - 0.25) < 0.1 and abs(float(b.std()) - 0.75) < 0.1
        else:
            assert limits[0] <= float(b.min()) and float(b.max()) < limits[1]


@case("aclnnInplaceRandomWithoutFromTo", "aclnnInplaceRandomWithoutFromToTensor")
def without_limits(name):
    for dtype, most in (
        (torch.int8, 127),
        (torch.uint8, 255),
        (torch.int32, 2**31 - 1),
        (torch.bool, 1),
        (torch.float16, 2**11),
        (torch.float32, 2**24),
    ):
        t = torch.zeros(4000, dtype=dtype, device="npu")
        call(name, t, *((7, 40) if not name.endswith("Tensor") else (*state(7, 40), 0)))
        values = t.cpu().double()
        assert values.min() >= 0 and values.max() <= most
        assert abs(values.mean() / most - 0.5) < 0.05 and torch.equal(values, values.round())


@case("aclnnMultinomialTensor")
def multinomial(name):
    weights = torch.tensor([0.0, 1.0, 3.0], device="npu")
    a, b = (torch.zeros(4000, dtype=torch.int64, device="npu") for _ in range(2))
    call("aclnnMultinomial", weights, 4000, True, 7, 48, a)
    call(name, weights, 4000, True, *state(7, 40), 8, b)
    assert torch.equal(a, b)
    assert abs(float((b == 2).float().mean()) - 0.75) < 0.05 and not (b == 0).any()


@case("aclnnDropoutV3", "aclnnDropoutGenMask", "aclnnDropoutDoMask")
def dropout(name):
    x = torch.ones(16, 64)
    out, mask = torch.zeros_like(x).npu(), torch.zeros(128, dtype=torch.uint8, device="npu")
    call("aclnnDropoutV3", x.npu(), None, 0.25, 7, 40, out, mask)
    bits = (mask.cpu()[:, None] >> torch.arange(8)).bitwise_and(1).flatten().view(16, 64)
    close(out, bits / 0.75)
    assert abs(float(bits.float().mean()) - 0.75) < 0.05
    again, applied = torch.zeros_like(mask), torch.zeros_like(out)
    call("aclnnDropoutGenMask", [16, 64], 0.25, 7, 40, again)
    call("aclnnDropoutDoMask", x.npu(), again, 0.25, applied)
    assert torch.equal(again, mask) and torch.equal(applied, out)


# ---- lists ----


def lists():
    return [[numbers(n, seed=10 * k + n).abs() + 0.5 for n in (3, 5)] for k in range(3)]


def one_number(value):
    return torch.tensor([value])


def foreach(name, inputs, want):
    out = [torch.zeros_like(w).npu() for w in want]
    call(name, *[move(i) for i in inputs], out)
    for got, expected in zip(out, want):
        close(got, expected)


BINARY = {
    "Add": torch._foreach_add,
    "Sub": torch._foreach_sub,
    "Mul": torch._foreach_mul,
    "Div": torch._foreach_div,
    "Maximum": torch._foreach_maximum,
    "Minimum": torch._foreach_minimum,
    "Pow": torch._foreach_pow,
}


@case(
    "aclnnForeachAddScalar",
    "aclnnForeachSubScalar",
    "aclnnForeachMulScalar",
    "aclnnForeachDivScalar",
    "aclnnForeachMaximumScalar",
    "aclnnForeachMinimumScalar",
    "aclnnForeachPowScalar",
)
def foreach_scalar(name):
    a = lists()[0]
    foreach(name, [a, one_number(1.5)], BINARY[name.removeprefix("aclnnForeach").removesuffix("Scalar")](a, 1.5))


@case("aclnnForeachAddList", "aclnnForeachSubList")
def foreach_list(name):
    a, b, _ = lists()
    foreach(name, [a, b, one_number(2.0)], (torch._foreach_add if "Add" in name else torch._foreach_sub)(a, b, alpha=2.0))


@case("aclnnForeachAddcmulScalar", "aclnnForeachAddcdivScalar", "aclnnForeachAddcmulScalarList", "aclnnForeachAddcdivScalarList")
def foreach_three(name):
    a, b, c = lists()
    function = torch._foreach_addcmul if "mul" in name else torch._foreach_addcdiv
    if name.endswith("List"):
        foreach(name, [a, b, c, torch.tensor([0.5, 2.0])], function(a, b, c, scalars=[0.5, 2.0]))
    else:
        foreach(name, [a, b, c, one_number(0.5)], function(a, b, c, value=0.5))


@case("aclnnForeachRoundOffNumber")
def foreach_round(name):
    a = [numbers(5) * 3]
    for mode, function in (
        (1, torch._foreach_round),
        (2, torch._foreach_floor),
        (3, torch._foreach_ceil),
        (5, torch._foreach_trunc),
        (7, torch._foreach_frac),
    ):
        foreach(name, [a, torch.tensor([mode], dtype=torch.int8)], function(a))


@case("aclnnFusedSgd")
def fused_sgd(name):
    for momentum, nesterov, first in ((0.0, False, True), (0.9, True, False), (0.9, False, True)):
        params, grads, buffers = lists()
        mine = [p.clone() for p in params], [b.clone() for b in buffers]
        moved = [move(x) for x in (params, grads, buffers)]
        torch._fused_sgd_(
            mine[0],
            grads,
            mine[1] if momentum else [],
            weight_decay=0.1,
            momentum=momentum,
            lr=0.01,
            dampening=0.0,
            nesterov=nesterov,
            maximize=False,
            is_first_step=first,
        )
        call(name, moved[0], moved[1], moved[2] if momentum else [], None, 0.1, momentum, 0.01, 0.0, nesterov, False, first)
        for got, want in zip(moved[0] + (moved[2] if momentum else []), mine[0] + (mine[1] if momentum else [])):
            close(got, want)


@case("aclnnApplyAdamWV2")
def apply_adamw(name):
    for amsgrad, maximize in ((False, False), (True, True)):
        param, grad, avg = (numbers(6, seed=s) for s in (1, 2, 3))
        square, most = numbers(6, seed=4).square(), numbers(6, seed=5).square() * 0.1
        moved = [move(t.clone()) for t in (param, avg, square, most, grad)]
        torch._fused_adamw_(
            [param],
            [grad],
            [avg],
            [square],
            [most] if amsgrad else [],
            [torch.tensor(4.0)],
            lr=0.01,
            beta1=0.9,
            beta2=0.99,
            weight_decay=0.1,
            eps=1e-8,
            amsgrad=amsgrad,
            maximize=maximize,
        )
        call(
            name,
            *moved[:3],
            moved[3] if amsgrad else None,
            moved[4],
            torch.tensor([3.0]).npu(),
            0.01,
            0.9,
            0.99,
            0.1,
            1e-8,
            amsgrad,
            maximize,
        )
        for got, want in zip(moved[:3], (param, avg, square)):
            close(got, want)


# ---- quantisation ----


@case("aclnnInplaceQuantScatterV2")
def quant_scatter(name):
    cache, updates = torch.zeros(2, 8, 4, dtype=torch.int8), numbers(2, 3, 4) * 5
    scales, zeros = torch.full((4,), 0.1), torch.full((4,), 2.0)
    want, moved = cache.clone(), cache.npu()
    quantised = (updates / scales + zeros).round().clamp(-128, 127).to(torch.int8)
    for batch, first in enumerate((1, 5)):
        want[batch, first : first + 3] = quantised[batch]
    call(name, moved, torch.tensor([1, 5]).npu(), updates.npu(), scales.npu(), zeros.npu(), -2, -1, 1, "rint")
    close(moved, want)


@case("aclnnDynamicQuant")
def dynamic_quant(name):
    x = numbers(4, 16, dtype=torch.float16)
    scale = x.float().abs().amax(-1) / 127
    compare(name, [x, None], (x.float() / scale[:, None]).round().to(torch.int8), scale)


@case("aclnnAscendQuant")
def ascend_quant(name):
    x, scale, offset = numbers(4, 16) * 5, torch.rand(16) * 10 + 1, torch.ones(16)
    want = (x * scale + offset).round().clamp(-128, 127).to(torch.int8)
    out = torch.zeros_like(want).npu()
    call(name, x.npu(), scale.npu(), offset.npu(), False, "round", torch.int8, out)
    close(out, want)


# ---- older versions of what the adapter calls a newer one for, whose result the tests of custom operators check ----


def same_bytes(name, newer, **given):
    out = [torch.zeros_like(t) for t in newer]
    names = [n for n in ("y2", "mxscale", "scale") if n in given]
    call(name, *by_name(name, **{**given, **dict(zip(names, out))}))
    for got, want in zip(out, newer):
        assert torch.equal(got.view(torch.uint8), want.view(torch.uint8)) and want.view(torch.uint8).any()


@case("aclnnDynamicMxQuant")
def dynamic_mx_quant(name):
    x = numbers(3, 70).npu()
    newer = torch_npu.npu_dynamic_mx_quant(x, dst_type=torch_npu.float8_e4m3fn)
    same_bytes(name, newer, input=x, axis=-1, round_mode_ptr="rint", y=torch.float8_e4m3fn, block_size=32, y2=None, mxscale=None)


@case("aclnnGroupedDynamicMxQuant")
def grouped_mx_quant(name):
    x, ends = numbers(100, 6).npu(), torch.tensor([30, 100], dtype=torch.int32).npu()
    newer = torch_npu.npu_grouped_dynamic_mx_quant(x, ends, dst_type=torch_npu.float8_e4m3fn)
    same_bytes(name, newer, x=x, group_index=ends, round_mode_ptr="rint", y=torch.float8_e4m3fn, blocksize=32, y2=None, mxscale=None)


@case("aclnnGroupedDynamicBlockQuant")
def grouped_block_quant(name):
    x, ends = numbers(100, 6).npu(), torch.tensor([30, 100], dtype=torch.int32).npu()
    newer = torch_npu.npu_grouped_dynamic_block_quant(x, ends, dst_type=torch_npu.float8_e4m3fn, row_block_size=32)
    same_bytes(
        name,
        newer,
        x=x,
        group_list=ends,
        round_mode_ptr="rint",
        y=torch.float8_e4m3fn,
        row_block_size=32,
        col_block_size=128,
        y2=None,
        scale=None,
    )


@case("aclnnKvRmsNormRopeCacheV2")
def kv_norm_rope_cache(name):
    kv, gamma, cos, sin = (numbers(*s, seed=i).npu() for i, s in enumerate(((2, 1, 3, 24), (16,), (2, 1, 3, 8), (2, 1, 3, 8))))
    index = torch.tensor([[1, 4, 0], [2, 3, 5]]).npu()
    older, newer = [[torch.zeros(2, 1, 6, n).npu() for n in (8, 16)] for _ in range(2)]
    want = torch_npu.npu_kv_rmsnorm_rope_cache(kv, gamma, cos, sin, index, *newer, cache_mode="Norm", is_output_kv=True)
    out = [torch.zeros_like(t) for t in want[2:]]
    call(
        name,
        *by_name(
            name,
            kv=kv,
            gamma=gamma,
            cos=cos,
            sin=sin,
            index=index,
            k_cache=older[0],
            ckv_cache=older[1],
            epsilon=1e-5,
            cache_mode_ptr="Norm",
            is_output_kv=True,
            k_rope=out[0],
            c_kv=out[1],
        ),
    )
    for got, expected in zip(older + out, [*newer, *want[2:]]):
        assert torch.equal(got, expected) and expected.any()


@case("aclnnFusedInferAttentionScoreV2", "aclnnFusedInferAttentionScoreV5")
def infer_attention(name):
    q, k, v = (numbers(2, heads, length, 8, seed=i, dtype=torch.float16) for i, (heads, length) in enumerate(((4, 3), (2, 5), (2, 5))))
    want = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), scale=0.3, enable_gqa=True)
    out, lse = torch.zeros_like(q).npu(), torch.zeros(2, 4, 3, 1).npu()
    call(
        name,
        *by_name(
            name,
            query=q.npu(),
            key_tensors=[k.npu()],
            value_tensors=[v.npu()],
            num_heads=4,
            scale=0.3,
            pre_tokens=2**31 - 1,
            next_tokens=2**31 - 1,
            input_layout_ptr="BNSD",
            num_key_value_heads=2,
            out=out,
            softmax_lse=lse,
        ),
    )
    close(out, want.half(), rtol=1e-2, atol=1e-2)


# ---- time ----


@case("aclnnSleep")
def sleep(name):
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    start.record()
    call(name, [20_000_000])
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 20
