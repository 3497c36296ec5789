"""Quantised results of gates, rotations, gradients and products, and norms in place."""

import torch
from cases import Case, grads, rand, rms
from cases_mx import E2M1, E4M3, E5M2, gate, mx_quant
from cases_quant_products import packed
from torch.nn import functional as F

from torch_npu import float8_e4m3fn


def both_axes(x, group_index=None, **kwargs):
    return *mx_quant(x, -1, **kwargs), *mx_quant(x, -2, ends=None if group_index is None else group_index.tolist(), **kwargs)


def swiglu_both(x, group_index=None, activate_left=True, round_mode="rint", scale_alg=1, dst_type=E4M3, dst_type_max=0.0):
    return both_axes(gate(x.float(), left=activate_left), group_index, round_mode=round_mode, scale_alg=scale_alg, dst_type=dst_type,
                     dst_type_max=dst_type_max)


def swiglu_both_backward(x, y_grad, group_index=None, activate_left=True, round_mode="rint", scale_alg=1, dst_type=E4M3, dst_type_max=0.0):
    gradient = grads(lambda t: gate(t, left=activate_left), (x.float(),), y_grad.float())
    return both_axes(gradient[0], group_index, round_mode=round_mode, scale_alg=scale_alg, dst_type=dst_type, dst_type_max=dst_type_max)


def group_backward(grad_y, x, weight=None, y_origin=None, group_index=None, clamp_limit=0.0):
    used = x.shape[0] if group_index is None else int(group_index.sum())

    def function(t):
        a, b = t.chunk(2, -1)
        if clamp_limit > 0:
            a, b = a.clamp(max=clamp_limit), b.clamp(-clamp_limit, clamp_limit)
        y = F.silu(a) * b
        return y if weight is None else y * weight.float()

    mask = (torch.arange(x.shape[0]) < used).view(-1, 1)
    grad_x = grads(function, (x.float(),), grad_y.float() * mask)[0].to(x.dtype)
    if weight is None:
        return grad_x, torch.empty(0)
    return grad_x, ((grad_y.float() * y_origin.float()).sum(-1, keepdim=True) * mask).to(weight.dtype)


def norm_backward_quant(dy, x, rstd, gamma, scale_x, offset_x=None, div_mode=True, **_):
    dx, dgamma = grads(lambda a, w: rms(a, w)[0], (x.float(), gamma.float()), dy.float())
    values = dx / scale_x.float() if div_mode else dx * scale_x.float()
    return (values if offset_x is None else values + offset_x.float()).round().clamp(-128, 127).to(torch.int8), dgamma


def rotate(x, rotation, alpha=None, dst_dtype=torch.int8, axis=-1, round_mode="rint", scale_alg=0, dst_type_max=0.0):
    side = rotation.shape[-1]
    parts = x.float().unflatten(-1, (-1, side)).unsqueeze(-2)
    turned = (parts @ rotation.float()).flatten(-3).to(x.dtype)
    if dst_dtype in (torch.int8, torch.quint4x2):
        most = 127 if dst_dtype == torch.int8 else 7
        scale = turned.float().abs().amax(-1) / most
        values = (turned.float() / scale.unsqueeze(-1)).round()
        return (values.to(torch.int8) if most == 127 else packed(values.unflatten(-1, (-1, 8)))), scale
    if alpha is not None:
        groups = turned.float().unflatten(-1, (-1, 32))
        limit = groups.abs().amax(-1, keepdim=True) * alpha.float()
        turned = groups.clamp(-limit, limit).flatten(-2)
    return mx_quant(turned, axis, round_mode, dst_dtype, scale_alg=scale_alg, dst_type_max=dst_type_max)


def unpacked(x, dim=-1):
    values = (x.unsqueeze(-1).long() >> torch.arange(0, 32, 4)) % 16
    return torch.where(values > 7, values - 16, values).flatten(-2)


def matmul_gelu(x1, x2, x1_scale, x2_scale, bias=None, approximate="gelu_erf"):
    a, b = (unpacked(t) if t.dtype == torch.int32 else t for t in (x1, x2))
    result = a.double() @ b.double()
    if bias is not None and not bias.is_floating_point():
        result = result + bias
    result = result * x2_scale.double() * x1_scale.double().view(-1, 1)
    if bias is not None and bias.is_floating_point():
        result = result + bias.double()
    short = torch.bfloat16 if torch.bfloat16 in (x2_scale.dtype, None if bias is None else bias.dtype) else torch.float16
    return F.gelu(result, approximate="tanh" if approximate == "gelu_tanh" else "none").to(short)


def int8(*shape, low=-9, high=10, dtype=torch.int8):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype)


def quantised(x, scales, zero_points, axis, dtype):
    kind = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}[dtype]
    shape = [1] * x.dim()
    shape[axis] = -1
    limits = torch.iinfo(kind)
    values = x.float() / scales.float().view(shape) + zero_points.float().view(shape)
    return values.round().clamp(limits.min, limits.max).to(kind)


def add_norm(a, b, w, epsilon=1e-6):
    y, rstd = rms((a.float() + b.float()).to(a.dtype).float(), w.float(), epsilon)
    return rstd, y.to(a.dtype), (a.float() + b.float()).to(a.dtype)


def case(op, args, reference, label="", **kwargs):
    return Case(op, args, reference, kwargs, label=label)


TALL, ENDS = rand(100, 24, seed=2) * torch.logspace(-3, 3, 100).unsqueeze(-1), torch.tensor([3, 3, 68, 100])
X, W = rand(6, 16), rand(16, seed=1)
BY_TENSOR = "_quantize_per_tensor_impl.out"
BY_CHANNEL = "_quantize_per_channel_impl.out"
DUAL, DUAL_BACKWARD = "npu_swiglu_mx_quant_with_dual_axis", "_npu_swiglu_backward_mx_quant_with_dual_axis"
GELU = (int8(5, 16), int8(16, 6), rand(5).abs(), rand(6).abs() / 50)

CASES = [
    case(DUAL, (rand(70, 80),), swiglu_both),
    case(DUAL, (TALL,), swiglu_both, "groups", group_index=ENDS),
    case(DUAL, (rand(2, 40, 12),), swiglu_both, "right half", activate_left=False, dst_type=float8_e4m3fn, scale_alg=0),
    case(DUAL, (rand(40, 12),), swiglu_both, "e2m1", dst_type=E2M1, scale_alg=2, dst_type_max=7.0, round_mode="round"),
    case(DUAL_BACKWARD, (rand(70, 128), rand(70, 64, seed=1)), swiglu_both_backward),
    case(DUAL_BACKWARD, (TALL.repeat(1, 8), rand(100, 96)), swiglu_both_backward, "groups", group_index=ENDS, dst_type=E5M2),
    case(DUAL_BACKWARD, (rand(40, 12), rand(40, 6)), swiglu_both_backward, "right half", activate_left=False, scale_alg=0),
    case("npu_swiglu_group_quant_backward", (rand(6, 8), X), group_backward),
    case("npu_swiglu_group_quant_backward", (rand(6, 8), X * 3), group_backward, "weight and limit", weight=rand(6, 1),
         y_origin=rand(6, 8, seed=3), clamp_limit=2.0),
    case("npu_swiglu_group_quant_backward", (rand(6, 8), X), group_backward, "groups", weight=rand(6, 1), y_origin=rand(6, 8, seed=3),
         group_index=torch.tensor([1, 3])),
    *(case("_npu_rms_norm_backward_quant", (rand(6, 16, seed=3), X, rms(X, W)[1], W, torch.tensor([scale])), norm_backward_quant, label,
           **more)
      for label, scale, more in (("divided", 0.02, {}), ("multiplied", 40.0, {"div_mode": False}),
                                 ("offset", 0.03, {"offset_x": torch.tensor([3.0])}))),
    case("npu_rotate_quant", (X, rand(8, 8)), rotate),
    case("npu_rotate_quant", (X, rand(16, 16)), rotate, "int4", dst_dtype=torch.quint4x2),
    case("npu_rotate_quant", (rand(6, 128), rand(64, 64)), rotate, "e2m1", dst_dtype=E2M1),
    case("npu_rotate_quant", (rand(2, 3, 128), rand(4, 32, 32)), rotate, "a matrix for each block", dst_dtype=E4M3, scale_alg=1),
    case("npu_rotate_quant", (rand(6, 128), rand(64, 64)), rotate, "cut off", dst_dtype=E5M2, alpha=torch.tensor([0.5])),
    case("npu_rotate_quant", (rand(70, 8), rand(8, 8)), rotate, "axis 0", dst_dtype=E5M2, axis=0),
    *(case("npu_rotate_quant", (rand(6, 128, dtype=dtype), rand(64, 64, dtype=dtype)), rotate, f"{dtype} {kind}", dst_dtype=kind)
      for dtype in (torch.float16, torch.bfloat16) for kind in (torch.int8, E4M3)),
    case("npu_quant_matmul_gelu", GELU, matmul_gelu),
    case("npu_quant_matmul_gelu", (*GELU[:3], torch.tensor([0.02])), matmul_gelu, "tanh", approximate="gelu_tanh",
         bias=int8(6, dtype=torch.int32)),
    case("npu_quant_matmul_gelu", GELU, matmul_gelu, "bias", bias=rand(6)),
    case("npu_quant_matmul_gelu", (int8(2, 5, 16), *GELU[1:]), matmul_gelu, "batch"),
    case("npu_quant_matmul_gelu", (int8(5, 2, low=-2**31, high=2**31 - 1, dtype=torch.int32),
                                   int8(16, 1, low=-2**31, high=2**31 - 1, dtype=torch.int32), rand(5).abs(), rand(8).abs() / 50),
         matmul_gelu, "int4"),
    *(case(BY_TENSOR, (X, torch.tensor([0.05]), torch.tensor([3.0]), kind), lambda x, s, z, d, result: quantised(x, s, z, 0, d), str(kind),
           result=torch.zeros(6, 16, dtype=plain))
      for kind, plain in ((torch.qint8, torch.int8), (torch.quint8, torch.uint8), (torch.qint32, torch.int32))),
    case(BY_TENSOR, (X[0], torch.tensor([0.05]), torch.tensor([3.0]), torch.qint8), lambda x, s, z, d, result: quantised(x, s, z, 0, d),
         "one dimension", result=torch.zeros(16, dtype=torch.int8)),
    *(case(BY_CHANNEL, (X, rand(size).abs() + 0.1, torch.arange(size) - 2.0, axis, torch.qint8),
           lambda x, s, z, axis, d, result: quantised(x, s, z, axis, d), f"axis {axis}", result=torch.zeros(6, 16, dtype=torch.int8))
      for size, axis in ((6, 0), (16, 1))),
    case("npu_add_rms_norm_v2", (X, rand(6, 16, seed=5), W), lambda *a: add_norm(*a)[0]),
    case("npu_add_rms_norm_v2", (rand(2, 3, 16), rand(2, 3, 16, seed=5), W, 1e-3), lambda *a: add_norm(*a)[0], "epsilon"),
    case("npu_add_rms_norm_v2_functional", (X, rand(6, 16, seed=5), W), add_norm),
    case("npu_add_rms_norm_v2_functional", (rand(2, 3, 16), rand(2, 3, 16, seed=5), W, 1e-3), add_norm, "epsilon"),
]
# Cases that the official wheel refuses: see test/official/custom_ops.py.
NOT_OFFICIAL = {f"{DUAL_BACKWARD}-right half": "its last dimension is no multiple of 64"}
