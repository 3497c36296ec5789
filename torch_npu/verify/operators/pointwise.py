"""Operators that work element by element, activations, and those over lists of tensors."""

import torch
from torch.nn import functional as F

from torch_npu.verify.samples import FLOAT32, INTEGERS, NUMBERS, Operator, each, f, mask

X, Y, Z = f(33, 64), f(33, 64), f(33, 64)
ROW = f(64)
POSITIVE, UNIT, ABOVE = f(33, 64, low=0.1, high=4), f(33, 64, low=-0.95, high=0.95), f(33, 64, low=1.1, high=4)
SHIFTS = f(33, 64, low=0, high=5)
LIST = (f(8, 16), f(33), f(2, 3, 4))
OTHERS = (f(8, 16, low=0.5), f(33, low=0.5), f(2, 3, 4, low=0.5))


def listed(name, *numbers):
    """An operator over two lists of three tensors each."""
    return lambda *t: getattr(torch, name)(list(t[:3]), list(t[3:]), *numbers)


def as_complex(x):
    return torch.view_as_complex(x.contiguous())


OPERATORS = [
    *each("abs atan asinh cos cosh erf erfc exp exp2 expm1 sin sinc sinh square tanh sigmoid deg2rad rad2deg", torch, X),
    *each("ceil floor round trunc frac sign sgn positive neg", torch, X),
    *each("acos asin atanh erfinv", torch, UNIT),
    *each("log log10 log1p log2 sqrt rsqrt reciprocal lgamma digamma", torch, POSITIVE),
    *each("acosh", torch, ABOVE),
    Operator("tan", torch.tan, (UNIT,)),
    Operator("logit", torch.logit, (f(33, 64, low=0.05, high=0.95),)),
    *each("isnan isinf isfinite isposinf isneginf signbit logical_not", torch, X, gradient=False),
    *each("entr i0 i0e i1 ndtr", torch.special, POSITIVE, prefix="special.", types=FLOAT32),
    Operator("nan_to_num", lambda x: torch.nan_to_num(x / x.round(), 0.5, 3.0, -3.0), (X,), gradient=False),
    Operator("round_decimals", lambda x: torch.round(x, decimals=1), (X,), FLOAT32),
    # two operands
    *each("add sub mul maximum minimum", torch, X, Y, types=NUMBERS),
    *each("div true_divide atan2 hypot fmax fmin copysign logaddexp logaddexp2", torch, X, ABOVE),
    Operator("div_trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc"), (X, ABOVE), (torch.float32, *INTEGERS), gradient=False),
    Operator("div_floor", lambda x, y: torch.div(x, y, rounding_mode="floor"), (X, ABOVE), (torch.float32, *INTEGERS), gradient=False),
    *each("floor_divide remainder fmod", torch, X, ABOVE, types=(torch.float32, *INTEGERS), gradient=False),
    *each("eq ne lt le gt ge isclose", torch, X, Y, types=NUMBERS, gradient=False),
    *each("logical_and logical_or logical_xor", torch, mask(33, 64), mask(33, 64), types=FLOAT32, gradient=False),
    *each("pow xlogy", torch, POSITIVE, POSITIVE),
    *each("lerp", torch, X, Y, f(33, 64, low=0, high=1)),
    Operator("add_broadcast", torch.add, (X, ROW), NUMBERS),
    Operator("mul_broadcast", lambda x, y: x[:, None] * y, (X, f(1, 5, 64))),
    Operator("add_alpha", lambda x, y: torch.add(x, y, alpha=3), (X, Y), NUMBERS),
    Operator("sub_alpha", lambda x, y: torch.sub(x, y, alpha=2), (X, Y), NUMBERS),
    Operator("add_scalar", lambda x: x + 2, (X,), NUMBERS),
    Operator("mul_scalar", lambda x: x * 3, (X,), NUMBERS),
    Operator("div_scalar", lambda x: x / 4, (X,), NUMBERS),
    Operator("rsub_scalar", lambda x: 1 - x, (X,), NUMBERS),
    Operator("pow_scalar", lambda x: x**3, (X,)),
    Operator("scalar_pow", lambda x: 2.0**x, (X,)),
    Operator("sqrt_pow", lambda x: x**0.5, (POSITIVE,)),
    Operator("eq_scalar", lambda x: x == 1, (X,), NUMBERS, gradient=False),
    Operator("gt_scalar", lambda x: x > 0, (X,), NUMBERS, gradient=False),
    Operator("heaviside", torch.heaviside, (X, Y), FLOAT32, gradient=False),
    Operator("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), (X, Y, Z)),
    Operator("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), (X, Y, ABOVE)),
    Operator("where", torch.where, (mask(33, 64), X, Y), NUMBERS),
    Operator("where_scalar", lambda m, x: torch.where(m, x, 0), (mask(33, 64), X), NUMBERS),
    Operator("clamp", lambda x: x.clamp(-1, 1), (X,), NUMBERS),
    Operator("clamp_min", lambda x: x.clamp_min(0), (X,), NUMBERS),
    Operator("clamp_max", lambda x: x.clamp_max(0), (X,), NUMBERS),
    Operator("clamp_tensor", torch.clamp, (X, f(64, low=-1, high=0), f(64, low=0, high=1)), FLOAT32),
    *each("bitwise_and bitwise_or bitwise_xor", torch, X, Y, types=INTEGERS, gradient=False),
    Operator("bitwise_not", torch.bitwise_not, (X,), INTEGERS, gradient=False),
    *each("bitwise_left_shift bitwise_right_shift", torch, f(33, 64, low=0, high=50), SHIFTS, types=INTEGERS, gradient=False),
    # in place
    Operator("add_", lambda x, y: x.clone().add_(y), (X, Y), NUMBERS),
    Operator("mul_", lambda x, y: x.clone().mul_(y), (X, Y), NUMBERS),
    Operator("div_", lambda x, y: x.clone().div_(y), (X, ABOVE)),
    Operator("relu_", lambda x: torch.relu_(x.clone()), (X,)),
    Operator("fill_", lambda x: x.clone().fill_(3), (X,), NUMBERS, gradient=False),
    Operator("zero_", lambda x: x.clone().zero_(), (X,), NUMBERS, gradient=False),
    # activations
    *each("relu relu6 leaky_relu elu selu celu silu mish hardswish hardsigmoid hardtanh softplus softsign logsigmoid", F, X, prefix="F."),
    *each("hardshrink softshrink tanhshrink", F, X, prefix="F."),
    Operator("F.gelu", F.gelu, (X,)),
    Operator("F.gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), (X,)),
    Operator("F.threshold", lambda x: F.threshold(x, 0.5, -1.0), (X,)),
    Operator("F.prelu", F.prelu, (f(4, 8, 9), f(8, low=0, high=1))),
    Operator("F.glu", F.glu, (X,)),
    *[Operator(f"F.{name}", lambda x, name=name: getattr(F, name)(x, -1), (X,)) for name in ("softmax", "log_softmax", "softmin")],
    Operator("F.softmax_first", lambda x: F.softmax(x, 0), (X,)),
    # lists
    Operator("foreach_add", listed("_foreach_add"), (*LIST, *OTHERS), gradient=False),
    Operator("foreach_mul", listed("_foreach_mul"), (*LIST, *OTHERS), gradient=False),
    Operator("foreach_div", listed("_foreach_div"), (*LIST, *OTHERS), gradient=False),
    Operator("foreach_lerp", listed("_foreach_lerp", 0.3), (*LIST, *OTHERS), gradient=False),
    Operator("foreach_addcmul", lambda *t: torch._foreach_addcmul(list(t), list(t), list(t), 0.5), LIST, gradient=False),
    Operator("foreach_addcdiv", lambda *t: torch._foreach_addcdiv(list(t), list(t), list(t), 0.5), OTHERS, gradient=False),
    Operator("foreach_sqrt", lambda *t: torch._foreach_sqrt(list(t)), OTHERS, gradient=False),
    Operator("foreach_norm", lambda *t: torch._foreach_norm(list(t)), LIST, gradient=False),
    Operator("foreach_add_60", lambda x: torch._foreach_add(list(x.unbind()), 1.5), (f(60, 7),), gradient=False),
    # complex numbers
    Operator("complex", lambda x, y: torch.view_as_real(torch.complex(x, y)), (X, Y), FLOAT32),
    Operator("complex_mul", lambda x: torch.view_as_real(as_complex(x) * as_complex(x)), (f(9, 16, 2),), FLOAT32),
    Operator("complex_abs", lambda x: as_complex(x).abs(), (f(9, 16, 2),), FLOAT32),
]
