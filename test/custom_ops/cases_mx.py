"""Quantisation to MX blocks and to 8 bits. The oracle rounds by search in the list of a type's numbers, with exact fractions for
the scales; what it says of float8 is compared with torch's own types in test/python/test_mx_types.py."""

import math
from fractions import Fraction

import torch
from cases import Case, rand
from torch.nn import functional as F

import torch_npu

E2M1, E1M2 = torch_npu.float4_e2m1fn_x2, torch_npu.float4_e1m2fn_x2
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
HIF8 = torch_npu.hifloat8
ALIASES = {torch_npu.float8_e4m3fn: E4M3, torch_npu.float8_e5m2: E5M2, 23: E5M2, 24: E4M3}


def hifloat8_numbers():
    """Number of each code of positive sign, by the definition of the fields (arXiv:2409.16626); without the infinite one."""
    numbers = [0.0] + [2.0 ** (code - 23) for code in range(1, 8)]
    for code in range(8, 128):
        bits = f"{code:07b}"
        dot, width = next((d, w) for d, w in (("11", 4), ("10", 3), ("01", 2), ("001", 1), ("0001", 0)) if bits.startswith(d))
        field, mantissa = bits[len(dot):len(dot) + width], bits[len(dot) + width:]
        exponent = 0 if not width else int("1" + field[1:], 2) * (-1 if field[0] == "1" else 1)
        numbers.append(2.0**exponent * (1 + int(mantissa, 2) / 2 ** len(mantissa)))
    return [math.inf if code == 0x6F else n for code, n in enumerate(numbers)]


NUMBERS = {
    E2M1: [0, 0.5, 1, 1.5, 2, 3, 4, 6],
    E1M2: [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75],
    E4M3: torch.arange(127, dtype=torch.uint8).view(E4M3).float().tolist(),
    E5M2: torch.arange(124, dtype=torch.uint8).view(E5M2).float().tolist(),
    HIF8: hifloat8_numbers(),
}
LARGEST = {kind: max(n for n in numbers if n < math.inf) for kind, numbers in NUMBERS.items()}
LARGEST[torch.int8] = 127.0
GREATEST_EXPONENT = {E2M1: 2, E1M2: 0, E4M3: 8, E5M2: 15}


def to_codes(x, kind, mode="rint"):
    """The code of each number of a float64 tensor: the sign, and the place in NUMBERS."""
    order = sorted((n, code) for code, n in enumerate(NUMBERS[kind]) if n < math.inf)
    numbers, places = torch.tensor([n for n, _ in order], dtype=torch.float64), torch.tensor([code for _, code in order])
    x = x.double()
    magnitude = x.abs().clamp(max=LARGEST[kind]).contiguous()
    above = torch.searchsorted(numbers, magnitude).clamp(max=len(numbers) - 1)
    below = (above - 1).clamp(min=0)
    to_above, to_below = numbers[above] - magnitude, magnitude - numbers[below]
    exact = to_above == 0
    if mode == "floor":
        up = x < 0
    elif mode == "round":
        up = to_above <= to_below
    else:
        up = (to_above < to_below) | ((to_above == to_below) & (places[above] % 2 == 0))
    codes = places[torch.where(exact | up, above, below)]
    sign = 8 if kind in (E2M1, E1M2) else 128
    negative = torch.signbit(x) & (codes > 0) if kind == HIF8 else torch.signbit(x)
    return torch.where(negative, codes + sign, codes).to(torch.uint8)


def stored(codes, kind):
    if kind in (E2M1, E1M2):
        return codes[..., ::2] + 16 * codes[..., 1::2]
    return codes if kind == HIF8 else codes.view(kind)


def power_up(amax, largest):
    """The least power of two that is no less than amax / largest."""
    ratio = Fraction(amax) / Fraction(largest)
    power = math.frexp(float(ratio))[1] - 2
    while Fraction(2) ** power < ratio:
        power += 1
    return power


def power_of(amax, kind, alg, most, low):
    if not math.isfinite(amax):
        return 255
    if alg == 0:
        return 0 if amax == 0 else min(max(math.frexp(amax)[1] - 1 - GREATEST_EXPONENT[kind], -127), 127) + 127
    if alg == 1:
        amax = max(amax, low)
    return 0 if amax == 0 else max(power_up(amax, most or LARGEST[kind]), -127) + 127


def blocks(x, axis, ends, size):
    """(place of the scale, slice along the axis) for each block; a group's scales begin in a pair of their own."""
    begin, place = 0, 0
    for end in ends if ends is not None else [x.shape[axis]]:
        for i in range(begin, end, size):
            yield place + (i - begin) // size, slice(i, min(i + size, end))
        place += 2 * -(-(end - begin) // (2 * size))
        begin = end


def mx_quant(x, axis=-1, round_mode="rint", dst_type=E2M1, block_size=32, scale_alg=0, dst_type_max=0.0, max_low_bound=0.0, ends=None):
    kind = ALIASES.get(dst_type, dst_type)
    lines = x.double().movedim(axis, -1)
    codes = torch.zeros(lines.shape, dtype=torch.uint8)
    pairs = -(-lines.shape[-1] // (2 * block_size)) if ends is None else lines.shape[-1] // (2 * block_size) + len(ends)
    scales = torch.zeros(*lines.shape[:-1], 2 * pairs, dtype=torch.uint8)
    for place, part in blocks(lines, -1, ends, block_size):
        amax = lines[..., part].abs().amax(-1)
        powers = [power_of(a, kind, scale_alg or 0, dst_type_max, max_low_bound) for a in amax.flatten().tolist()]
        powers = torch.tensor(powers, dtype=torch.int64).view(amax.shape)
        scales[..., place] = powers.to(torch.uint8)
        values = lines[..., part] * (2.0 ** (127 - powers.double())).unsqueeze(-1)
        codes[..., part] = to_codes(torch.where(powers.unsqueeze(-1) == 255, torch.zeros(()).double(), values), kind, round_mode)
    scales = scales.unflatten(-1, (pairs, 2)).movedim(-2, axis if axis >= 0 else axis - 1)
    return stored(codes.movedim(-1, axis), kind), scales


def dual_axis(x, **kwargs):
    return *mx_quant(x, -1, **kwargs), *mx_quant(x, -2, **kwargs)


def squares(x, round_mode="rint", dst_type=E2M1, scale_alg=0, dst_type_max=0.0):
    """Every block of 32 x 32 has one scale: that of one long block of its numbers."""
    kind = ALIASES.get(dst_type, dst_type)
    rows, columns = x.shape[-2:]
    planes = x.double().reshape(-1, rows, columns)
    codes = torch.zeros(planes.shape, dtype=torch.uint8)
    first = torch.zeros(len(planes), rows, 2 * -(-columns // 64), dtype=torch.uint8)
    second = torch.zeros(len(planes), 2 * -(-rows // 64), columns, dtype=torch.uint8)
    for p, plane in enumerate(planes):
        for r in range(0, rows, 32):
            for c in range(0, columns, 32):
                block = plane[r:r + 32, c:c + 32]
                power = power_of(block.abs().max().item(), kind, scale_alg, dst_type_max, 0.0)
                codes[p, r:r + 32, c:c + 32] = to_codes(block * 2.0 ** (127 - power), kind, round_mode)
                first[p, r:r + 32, c // 32] = power
                second[p, r // 32, c:c + 32] = power
    shape = x.shape[:-2]
    second = second.unflatten(1, (-1, 2)).movedim(2, -1)
    return (stored(codes.reshape(x.shape), kind), first.unflatten(-1, (-1, 2)).reshape(*shape, rows, -1, 2),
            second.reshape(*shape, -1, columns, 2))


def levels(x, round_mode="rint"):
    parts = x.float().split(512, -1)
    scales = torch.stack([part.abs().amax(-1) / torch.tensor(6.0) for part in parts], -1)
    between = torch.cat([torch.where(s == 0, part, part / s) for part, s in zip(parts, scales.unsqueeze(-1).unbind(-2))], -1)
    y, inner = mx_quant(between.to(x.dtype), round_mode=round_mode)
    return y, scales, inner


def anti_mx_quant(x, scale, axis=-1, dst_type=torch.bfloat16, src_type=torch_npu.float8_e4m3fn):
    kind = ALIASES.get(src_type, src_type)
    codes = x.view(torch.uint8)
    if kind in (E2M1, E1M2):
        codes = torch.stack([codes % 16, codes // 16], -1).flatten(-2)
        numbers = torch.tensor([*NUMBERS[kind], *(-n for n in NUMBERS[kind])])[codes.long()]
    else:
        numbers = codes.view(kind).float()
    powers = scale.view(torch.uint8).flatten(-2).repeat_interleave(32, -1)[..., : numbers.shape[-1]]
    return (numbers.double() * 2.0 ** (powers.double() - 127)).to(dst_type)


def byte_quant(values, kind):
    return values.round().clamp(-128, 127).to(torch.int8) if kind == torch.int8 else stored(
        to_codes(values, kind, "round" if kind == HIF8 else "rint"), kind)


def block_quant(x, ends=None, min_scale=0.0, round_mode="rint", dst_type=torch.int8, row_block_size=1, col_block_size=128,
                dst_type_max=0.0):
    kind = ALIASES.get(dst_type, dst_type)
    rows, columns = x.shape[-2:]
    count = -(-rows // row_block_size) if ends is None else rows // row_block_size + len(ends)
    scales = torch.zeros(*x.shape[:-2], count, -(-columns // col_block_size))
    values = torch.zeros(x.shape)
    line, begin = 0, 0
    for end in ends if ends is not None else [rows]:
        for r in range(begin, end, row_block_size):
            down = slice(r, min(r + row_block_size, end))
            for c in range(0, columns, col_block_size):
                block = x[..., down, c:c + col_block_size].float()
                scale = block.abs().amax((-2, -1)) / torch.tensor(dst_type_max or LARGEST[kind], dtype=torch.float32)
                scale = scale.clamp(max=1 / min_scale) if min_scale else scale
                scales[..., line, c // col_block_size] = scale
                divided = block / scale[..., None, None]
                values[..., down, c:c + col_block_size] = torch.where(scale[..., None, None] == 0, torch.zeros(()), divided)
            line += 1
        begin = end
    return byte_quant(values, kind), scales


def quant_max(x, scale, round_mode="rint", dst_dtype=torch_npu.float8_e5m2, group_list=None):
    return byte_quant(x.float() / scale.float(), ALIASES.get(dst_dtype, dst_dtype)), x.abs().max().reshape(1)


def gate(x, dim=-1, left=False, mode=0, limit=7.0, alpha=1.702, bias=1.0):
    active, linear = (x[..., ::2], x[..., 1::2]) if mode == 1 else x.chunk(2, dim) if left else x.chunk(2, dim)[::-1]
    if mode == 0:
        return F.silu(active) * linear
    if mode == 3:
        return F.silu(active).clamp(max=limit) * linear.clamp(-limit, limit)
    active = active.clamp(max=limit)
    return active * torch.sigmoid(active * alpha) * (linear.clamp(-limit, limit) + bias)


def swiglu_mx(x, group_index=None, activate_dim=-1, activate_left=False, swiglu_mode=0, clamp_limit=7.0, glu_alpha=1.702, glu_bias=1.0,
              group_mode=0, axis=-1, **kwargs):
    ends = None
    if group_index is not None and axis == -2:
        ends = (group_index.cumsum(0) if group_mode == 0 else group_index).tolist()
    y = gate(x.float(), activate_dim, activate_left, swiglu_mode, clamp_limit, glu_alpha, glu_bias)
    return mx_quant(y, axis, ends=ends, **kwargs)


def norm_mx(x, gamma, beta=None, epsilon=1e-6, **kwargs):
    y = x.float() * (x.float().square().mean(-1, keepdim=True) + epsilon).rsqrt() * gamma.float()
    return *mx_quant(y if beta is None else y + beta.float(), **kwargs), torch.empty(0)


def add_norm_mx(x1, x2, gamma, **kwargs):
    y, scale, rstd = norm_mx(x1.float() + x2.float(), gamma, **kwargs)
    return y, x1 + x2, scale, rstd


X = rand(4, 200, seed=1) * torch.logspace(-3, 3, 200)  # blocks of very different sizes, the last one short
X[1, 32:64] = 0
EVEN = torch.tensor([[0.0, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0, -0.25, -0.75, -1.25, -1.75, -2.5, -3.5, -5.0, 7.0, -7.5, 0.125,
                      -0.0]])  # ties
ENDS = torch.tensor([3, 3, 68, 100], dtype=torch.int32)
TALL = rand(100, 6, seed=2) * torch.logspace(-3, 3, 100).unsqueeze(-1)
WEIGHT, OFFSET = rand(200, seed=3), rand(200, seed=4)
# The middle between neighbours, in a block whose scale is one.
HALFWAY = {kind: torch.tensor([[LARGEST[kind], *((a + b) / 2 for a, b in zip(NUMBERS[kind][-32:], NUMBERS[kind][-31:]))]])
           for kind in (E4M3, E5M2)}
CODES, SCALES = mx_quant(X, dst_type=E4M3)


def grouped(x, ends, round_mode="rint", dst_type=23, blocksize=32, scale_alg=0, dst_type_max=0.0):
    return mx_quant(x, 0, round_mode, dst_type, blocksize, scale_alg, dst_type_max, ends=ends.tolist())


def grouped_block(x, ends, dst_type=291, **kwargs):
    kwargs.pop("group_list_type", None)
    return block_quant(x, ends.tolist(), dst_type=dst_type, **kwargs)


def case(op, args, reference, label, **kwargs):
    return Case(op, args, reference, kwargs, label=label)


def swiglu_group(x, weight=None, group_index=None, quant_mode=3, clamp_limit=-1.0, dst_type_max=15.0, output_origin=False):
    gates, linear = x.float().chunk(2, -1)
    if clamp_limit > 0:
        gates, linear = gates.clamp(max=clamp_limit), linear.clamp(-clamp_limit, clamp_limit)
    y = F.silu(gates) * linear
    if weight is not None:
        y = y * weight.float().view(*y.shape[:-1], 1)
    rows = y.reshape(-1, y.shape[-1])
    parts = rows.split([len(rows)] if group_index is None else group_index.tolist())
    scales = torch.stack([part.abs().max().clamp(min=1e-8) / torch.tensor(dst_type_max) for part in parts])
    codes = torch.cat([byte_quant(part / scale, HIF8) for part, scale in zip(parts, scales)])
    return codes.view(y.shape), scales, y.to(x.dtype) if output_origin else torch.empty(0, dtype=x.dtype)


def dtype_cast(x, dtype, input_dtype=None):
    if input_dtype is not None:
        x = anti_mx_quant(x, torch.full((*x.shape[:-1], 8, 2), 127, dtype=torch.uint8), src_type=input_dtype, dst_type=torch.float32)
    return stored(to_codes(x, dtype, "round" if dtype == HIF8 else "rint"), dtype) if isinstance(dtype, int) else x.to(dtype)


KINDS = {"e2m1": E2M1, "e1m2": E1M2, "e4m3": E4M3, "e5m2": E5M2}
CASES = [
    *(Case("npu_dtype_cast", (X, kind), dtype_cast, label=name) for name, kind in {**KINDS, "hifloat8": HIF8}.items()),
    *(Case("npu_dtype_cast", (mx_quant(X, dst_type=KINDS[name])[0], torch.float32, KINDS[name]), dtype_cast, label=f"from {name}")
      for name in ("e2m1", "e1m2")),
    Case("npu_dtype_cast", (rand(3, 4), torch_npu.float16), lambda x, d: x.half(), grad=(0,), label="number of the type"),
    Case("npu_dtype_cast_backward", (rand(3, 4).half(), torch.float32, torch.float16), lambda g, *_: g.float(), label="types said"),
    *(case("npu_dynamic_mx_quant", (X,), mx_quant, name, dst_type=kind) for name, kind in KINDS.items()),
    *(case("npu_dynamic_mx_quant", (rand(2, 70, 6),), mx_quant, f"{name} axis 1", dst_type=kind, axis=1) for name, kind in KINDS.items()),
    *(case("npu_dynamic_mx_quant", (EVEN,), mx_quant, f"{name} {mode}", dst_type=KINDS[name], round_mode=mode)
      for name in ("e2m1", "e1m2") for mode in ("rint", "round", "floor")),
    *(case("npu_dynamic_mx_quant", (HALFWAY[kind],), mx_quant, f"{kind} ties", dst_type=kind) for kind in HALFWAY),
    case("npu_dynamic_mx_quant", (X,), mx_quant, "number of the type", dst_type=torch_npu.float8_e4m3fn, scale_alg=None, block_size=64),
    case("npu_dynamic_mx_quant", (X,), mx_quant, "rounded up e4m3", dst_type=E4M3, scale_alg=1),
    case("npu_dynamic_mx_quant", (X,), mx_quant, "rounded up e5m2", dst_type=E5M2, scale_alg=1, max_low_bound=0.5),
    *(case("npu_dynamic_mx_quant", (X,), mx_quant, f"maximum {most}", dst_type=E2M1, scale_alg=2, dst_type_max=most)
      for most in (0.0, 6.0, 7.0, 9.0)),
    case("npu_dynamic_mx_quant", (torch.tensor([[1.0, math.inf] * 16 + [math.nan] * 32 + [2.0] * 32]),), mx_quant, "not finite",
         dst_type=E4M3),
    case("npu_anti_mx_quant", (CODES, SCALES), anti_mx_quant, "e4m3"),
    case("npu_anti_mx_quant", (CODES, SCALES.view(torch.float8_e8m0fnu)), anti_mx_quant, "scales of their type", dst_type=torch.float32),
    case("npu_anti_mx_quant", mx_quant(X, dst_type=E5M2), anti_mx_quant, "e5m2", src_type=torch_npu.float8_e5m2, dst_type=torch.float16),
    *(case("npu_anti_mx_quant", mx_quant(X, dst_type=KINDS[name]), anti_mx_quant, name, src_type=KINDS[name], dst_type=torch.float32)
      for name in ("e2m1", "e1m2")),
    *(case("npu_dynamic_mx_quant_with_dual_axis", (rand(2, 70, 40),), dual_axis, name, dst_type=kind) for name, kind in KINDS.items()),
    case("npu_dynamic_mx_quant_with_dual_axis", (X,), dual_axis, "maximum", scale_alg=2, dst_type_max=7.0),
    *(case("npu_dynamic_block_mx_quant", (rand(2, 70, 40),), squares, name, dst_type=kind) for name, kind in KINDS.items()),
    case("npu_dynamic_block_mx_quant", (X,), squares, "maximum", scale_alg=2, dst_type_max=6.0, round_mode="floor"),
    case("npu_dynamic_dual_level_mx_quant", (rand(3, 1100) * torch.logspace(-3, 3, 1100),), levels, ""),
    case("npu_dynamic_dual_level_mx_quant", (torch.full((1, 512), 8.0),), levels, "one number", round_mode="round"),
    case("npu_grouped_dynamic_mx_quant", (TALL, ENDS), grouped, "default"),
    case("npu_grouped_dynamic_mx_quant", (TALL, ENDS), grouped, "e1m2", dst_type=E1M2, scale_alg=2, round_mode="floor"),
    case("npu_grouped_dynamic_mx_quant", (TALL, ENDS), grouped, "rounded up", dst_type=E4M3, scale_alg=1),
    case("npu_dynamic_block_quant", (X,), block_quant, "int8"),
    case("npu_dynamic_block_quant", (rand(2, 5, 200),), block_quant, "float8", dst_type=E4M3, row_block_size=2, col_block_size=64),
    case("npu_dynamic_block_quant", (X,), block_quant, "e5m2 with a bound", dst_type=torch_npu.float8_e5m2, min_scale=1e-2),
    case("npu_dynamic_block_quant", (X,), block_quant, "hifloat8", dst_type=HIF8, round_mode="round", dst_type_max=224.0),
    case("npu_grouped_dynamic_block_quant", (TALL, ENDS), grouped_block, "default"),
    case("npu_grouped_dynamic_block_quant", (rand(2, 100, 6), ENDS), grouped_block, "blocks", dst_type=E4M3, row_block_size=32,
         col_block_size=4),
    case("npu_quant_max", (rand(3, 40), torch.tensor([0.5])), quant_max, "e5m2"),
    case("npu_quant_max", (rand(3, 40) * 1000, torch.tensor([0.5])), quant_max, "saturated", dst_dtype=E4M3),
    case("npu_quant_max", (rand(3, 40), torch.tensor([0.01])), quant_max, "hifloat8", dst_dtype=HIF8, round_mode="round"),
    case("npu_swiglu_mx_quant", (rand(3, 80),), swiglu_mx, ""),
    *(case("npu_swiglu_mx_quant", (rand(3, 80) * 5,), swiglu_mx, f"mode {mode}", swiglu_mode=mode, dst_type=E4M3, activate_left=True)
      for mode in range(4)),
    case("npu_swiglu_mx_quant", (rand(80, 6),), swiglu_mx, "rows", activate_dim=-2, axis=-2, dst_type=E5M2, scale_alg=1),
    case("npu_swiglu_mx_quant", (rand(80, 12),), swiglu_mx, "groups of rows", axis=-2, dst_type=E4M3, group_index=torch.tensor([10, 70])),
    case("npu_swiglu_mx_quant", (rand(80, 12),), swiglu_mx, "ends of groups", axis=-2, dst_type=E4M3,
         group_index=torch.tensor([10, 80]), group_mode=1),
    case("npu_swiglu_mx_quant", (rand(4, 80),), swiglu_mx, "groups of tokens", dst_type=E4M3, group_index=torch.tensor([1, 3])),
    case("npu_swiglu_group_quant", (rand(8, 16),), swiglu_group, "one group", quant_mode=3),
    case("npu_swiglu_group_quant", (rand(2, 4, 16) * 3,), swiglu_group, "groups", quant_mode=3, weight=rand(8, 1),
         group_index=torch.tensor([3, 5]), clamp_limit=2.0, dst_type_max=56.0, output_origin=True),
    case("npu_rms_norm_dynamic_mx_quant", (X, WEIGHT), norm_mx, "e2m1"),
    case("npu_rms_norm_dynamic_mx_quant", (X, WEIGHT), norm_mx, "offset", beta=OFFSET, dst_type=E4M3, scale_alg=1),
    case("npu_add_rms_norm_dynamic_mx_quant", (X, rand(4, 200), WEIGHT), add_norm_mx, "e2m1"),
    case("npu_add_rms_norm_dynamic_mx_quant", (X, rand(4, 200), WEIGHT), add_norm_mx, "offset", beta=OFFSET, dst_type=E5M2),
]
