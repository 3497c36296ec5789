"""Products of float8, hifloat8 and float4 numbers with their scales, products that are quantised, and adapters. The oracle takes the
numbers out of their codes by table, and multiplies in float64."""

import torch
from cases import Case, rand
from cases_mx import E2M1, E4M3, E5M2, HIF8, NUMBERS, mx_quant

import torch_npu

E8M0 = torch_npu.float8_e8m0fnu


def hif8(*shape, seed=0):
    """Codes of finite hifloat8 numbers of middling size."""
    codes = torch.randint(8, 64, shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.uint8)
    return codes + 128 * (codes % 2)


def numbers(x, kind=None):
    """float64 of codes."""
    if kind in (E2M1, HIF8):
        codes = x.view(torch.uint8)
        if kind == E2M1:
            codes = torch.stack([codes % 16, codes // 16], -1).flatten(-2)
        half = len(NUMBERS[kind])
        values = torch.tensor(NUMBERS[kind], dtype=torch.float64)[(codes % half).long()]
        return torch.where(codes >= half, -values, values)
    return x.double()


def scaled(x, scale, kind=None):
    """Numbers along the last dimension times their powers of two; scale has pairs."""
    powers = 2.0 ** (scale.view(torch.uint8).flatten(-2).double() - 127)
    values = numbers(x, kind)
    return values * powers.repeat_interleave(32, -1)[..., : values.shape[-1]]


def product(x1, x2, x2_scale, x1_scale=None, x1_dtype=None, x2_dtype=None, **_):
    if x2_scale.element_size() == 1:
        return scaled(x1, x1_scale) @ scaled(x2.t(), x2_scale.transpose(0, 1)).t()
    result = numbers(x1, x1_dtype) @ numbers(x2, x2_dtype) * x2_scale.double()
    return result if x1_scale is None else result * x1_scale.double()


def add_quant(input, x1, x2, x2_scale, **kwargs):
    return (input.double() + product(x1, x2, x2_scale, **kwargs)).to(input.dtype)


def add_quant_gmm(input, x1, x2, x2_scale, group_list, x1_scale=None, group_list_type=0, **kwargs):
    ends = (group_list if group_list_type == 0 else group_list.cumsum(0)).tolist()
    out, begin, place = input.double(), 0, 0
    for g, end in enumerate(ends):
        pairs = -(-(end - begin) // 64)
        if x2_scale.element_size() == 1:
            scales = x2_scale[place:place + pairs], x1_scale[:, place:place + pairs]
        else:
            scales = x2_scale[g], None if x1_scale is None else x1_scale.flatten()[g]
        if end > begin:
            out[g] += product(x1[:, begin:end], x2[begin:end], *scales, **kwargs)
        begin, place = end, place + pairs
    return out.to(input.dtype)


def mx_pair(m, k, n, kinds=(E4M3, E5M2), ends=None):
    """x1 [m, k] and x2 [k, n] in blocks along k, and their scales."""
    (x1, s1), (x2, s2) = (mx_quant(rand(size, k, seed=i), dst_type=kind, ends=ends) for i, (size, kind) in enumerate(zip((m, n), kinds)))
    return x1, x2.t(), s2.transpose(0, 1), s1


def dual_level(x1, x2, x1_level0, x2_level0, x1_level1, x2_level1, bias=None, output_dtype=torch.bfloat16):
    def rows(x, level0, level1):
        values = scaled(x, level1, E2M1)
        return values * level0.double().repeat_interleave(512, -1)[:, : values.shape[-1]]

    result = rows(x1, x1_level0, x1_level1) @ rows(x2, x2_level0.t(), x2_level1).t()
    return (result if bias is None else result + bias.double()).to(output_dtype)


def levels(m, n, k):
    def made(low, high, *shape):
        return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(shape[0]), dtype=torch.uint8)

    x1, x2 = (made(0, 256, rows, k // 2) for rows in (m, n))
    inner = [made(120, 130, rows, -(-k // 64), 2) for rows in (m, n)]
    return x1, x2, rand(m, -(-k // 512)), rand(-(-k // 512), n), *inner


def packed(values):
    """int4, eight in an int32."""
    return ((values.long() % 16) << torch.arange(0, 32, 4)).sum(-1).to(torch.int32)


def kronecker(x, p1, p2, clip_ratio=None, dst_dtype=None, dst_type_max=None):
    turned = p1.float() @ (x.float() @ p2.float() if p2.numel() else x.float())
    if dst_dtype == E2M1:
        return mx_quant(turned.flatten(1), scale_alg=2 if dst_type_max else 0, dst_type_max=dst_type_max or 0.0)
    scale = turned.flatten(1).abs().amax(1) * torch.tensor(clip_ratio or 1.0) / 7
    values = (turned / scale.view(-1, 1, 1)).round().clamp(-8, 7)
    return packed(values.unflatten(-1, (-1, 8))), scale


def transposed(x1, x2, dtype, x1_scale=None, x2_scale=None, perm_x2=(0, 1, 2), x1_dtype=None, x2_dtype=None, **_):
    turned = tuple(perm_x2) == (0, 2, 1)
    if x2_scale.element_size() == 1:
        right = scaled(x2, x2_scale).transpose(1, 2) if turned else scaled(x2.transpose(1, 2), x2_scale.transpose(1, 2)).transpose(1, 2)
        result = scaled(x1, x1_scale).transpose(0, 1) @ right
    else:
        right = numbers(x2, x2_dtype)
        result = numbers(x1, x1_dtype).transpose(0, 1) @ (right.transpose(1, 2) if turned else right) * x2_scale.double()
        result = result if x1_scale is None else result * x1_scale.double().view(-1, 1)
    return result.transpose(0, 1).to(dtype)


def batch_of(m, batch, k, n, turned=False, mx=False):
    x1, s1 = mx_quant(rand(m, batch, k), dst_type=E4M3)
    x2, s2 = mx_quant(rand(batch, n, k, seed=1), dst_type=E4M3)
    x2, s2 = (x2, s2) if turned else (x2.transpose(1, 2), s2.transpose(1, 2))
    scales = (s1.view(torch.float8_e8m0fnu), s2.view(torch.float8_e8m0fnu)) if mx else (rand(m), rand(n))
    return (x1, x2, torch.float16), {"x1_scale": scales[0], "x2_scale": scales[1], "perm_x2": [0, 2, 1] if turned else [0, 1, 2]}


def blocks(scale, rows, columns, row_block, column_block):
    longer = scale.double().repeat_interleave(row_block, -2).repeat_interleave(column_block, -1)
    return longer[..., :rows, :columns]


def quant_product(x1, x2, scale, *, pertoken_scale=None, bias=None, output_dtype=None, x1_dtype=None, x2_dtype=None, group_sizes=None,
                  **_):  # fmt: skip
    columns = x2.transpose(-1, -2)
    if scale.element_size() == 1:
        result = scaled(x1, pertoken_scale, x1_dtype) @ scaled(columns, scale.transpose(-2, -3), x2_dtype).transpose(-1, -2)
    else:
        left, right = numbers(x1, x1_dtype), numbers(x2, x2_dtype)
        if scale.dim() == 2:  # of blocks
            m, n, k = group_sizes
            left, right = left * blocks(pertoken_scale, *left.shape, m, k), right * blocks(scale, *right.shape, k, n)
            result = left @ right
        else:
            result = left @ right * scale.double() * (1 if pertoken_scale is None else pertoken_scale.double()[:, None])
    return (result if bias is None else result + bias.double()).to(output_dtype)


def operands(m, k, n, first, second, batch=()):
    """Rows and a transposed view of columns in MX blocks, with their scales."""
    x1, s1 = mx_quant(rand(*batch, m, k), dst_type=first)
    x2, s2 = mx_quant(rand(*batch, n, k, seed=1), dst_type=second)
    return (x1, x2.transpose(-1, -2), s2.transpose(-2, -3)), {"pertoken_scale": s1}


def of_floats():
    mx = {"scale_dtype": E8M0, "pertoken_scale_dtype": E8M0, "group_sizes": [1, 1, 32]}
    kinds = {"float8 in blocks of 32": (E4M3, E4M3, {}), "float8_e5m2 in blocks of 32": (E5M2, E4M3, {}),
             "float4": (E2M1, E2M1, {"x1_dtype": E2M1, "x2_dtype": E2M1}), "float8 by float4": (E4M3, E2M1, {"x2_dtype": E2M1})}
    for label, (first, second, types) in kinds.items():
        for m, k, n, batch in ((5, 128, 6, ()), (3, 192, 4, (2,))):
            args, scales = operands(m, k, n, first, second, batch)
            more = {"bias": rand(n, seed=4)} if batch else {}
            yield Case("npu_quant_matmul", args, quant_product, {**scales, **mx, **types, **more, "output_dtype": torch.bfloat16},
                       label=f"{label}{', batch' if batch else ''}")
    args, scales = operands(5, 130, 6, E4M3, E4M3)
    typed = {"pertoken_scale": scales["pertoken_scale"].view(torch.float8_e8m0fnu), "output_dtype": torch.float32}
    yield Case("npu_quant_matmul", (*args[:2], args[2].view(torch.float8_e8m0fnu)), quant_product, typed, label="scales of their type")
    hifs = {"x1_dtype": HIF8, "x2_dtype": HIF8, "output_dtype": torch.float32, "pertoken_scale": rand(5, seed=5)}
    yield Case("npu_quant_matmul", (hif8(5, 24), hif8(24, 6), rand(6)), quant_product, hifs, label="hifloat8")
    eights = rand(5, 40).to(torch.float8_e4m3fn), rand(40, 6).to(torch.float8_e4m3fn)
    yield Case("npu_quant_matmul", (*eights, rand(6)), quant_product, {"pertoken_scale": rand(5), "bias": rand(6, seed=2),
               "output_dtype": torch.float32}, label="float8 with scales of rows and columns")
    eights = rand(5, 40).to(torch.float8_e4m3fn), rand(40, 20).to(torch.float8_e4m3fn)
    yield Case("npu_quant_matmul", (*eights, rand(3, 2)), quant_product, {"pertoken_scale": rand(5, 3), "group_sizes": [1, 16, 16],
               "output_dtype": torch.float32}, label="float8 with scales of blocks")


def grouped_product(x, weight, *, scale, group_list, output_dtype, per_token_scale=None, bias=None, group_list_type=0, x_dtype=None,
                    weight_dtype=None, **_):  # fmt: skip
    """Rows behind the last group are zeros."""
    ends = (group_list if group_list_type == 0 else group_list.cumsum(0)).tolist()
    out, begin = torch.zeros(len(x[0]), weight[0].shape[-1], dtype=output_dtype), 0
    for g, end in enumerate(ends):
        pertoken = None if per_token_scale is None else per_token_scale[0][begin:end]
        out[begin:end] = quant_product(x[0][begin:end], weight[0][g], scale[0][g], pertoken_scale=pertoken, output_dtype=output_dtype,
                                       bias=None if bias is None else bias[0][g], x1_dtype=x_dtype, x2_dtype=weight_dtype)
        begin = end
    return [out]


def experts():
    joined = {"group_type": 0, "split_item": 2}
    kinds = {"float8 in blocks of 32": (E4M3, E4M3, 128, {}), "float4": (E2M1, E2M1, 192, {"x_dtype": E2M1, "weight_dtype": E2M1}),
             "float8 by float4": (E5M2, E2M1, 64, {"weight_dtype": E2M1}), "a short block": (E4M3, E4M3, 130, {})}
    for at, (label, (first, second, k, types)) in enumerate(kinds.items()):
        x, scales = mx_quant(rand(9, k), dst_type=first)
        w, of_weights = mx_quant(rand(3, 6, k, seed=1), dst_type=second)
        lists = {"group_list": torch.tensor([2, 0, 6] if at % 2 else [4, 4, 8]), "group_list_type": at % 2}
        yield Case("npu_grouped_matmul", ([x], [w.transpose(1, 2)]), grouped_product, {
            "scale": [of_weights.transpose(1, 2)], "per_token_scale": [scales], "scale_dtype": E8M0, "per_token_scale_dtype": E8M0,
            "output_dtype": torch.bfloat16, **joined, **types, **lists}, label=label)
    x, w = rand(9, 40).to(torch.float8_e4m3fn), rand(3, 40, 6).to(torch.float8_e4m3fn)
    ends = {"group_list": torch.tensor([3, 3, 9]), "output_dtype": torch.float32}
    rows = {"scale": [rand(3, 6)], "per_token_scale": [rand(9)], "bias": [rand(3, 6)]}
    yield Case("npu_grouped_matmul", ([x], [w]), grouped_product, {**rows, **joined, **ends},
               label="float8 with scales of rows and columns")
    yield Case("npu_grouped_matmul", ([hif8(9, 24)], [hif8(3, 24, 6)]), grouped_product, {"scale": [rand(3, 1)], "x_dtype": HIF8,
               "weight_dtype": HIF8, **joined, **ends}, label="hifloat8 with scales of experts")


def lora(input, x, weight_b, indices, weight_a=None, layer_idx=0, scale=1e-3, y_offset=0, y_slice_size=-1):
    out = input.double()
    for row, adapter in enumerate(indices.tolist()):
        if adapter == len(weight_b):
            continue
        between = x[row].double() if weight_a is None else weight_a[adapter, layer_idx].double() @ x[row].double()
        width = out.shape[1] if y_slice_size == -1 else y_slice_size
        out[row, y_offset:y_offset + width] += weight_b[adapter, layer_idx].double() @ between * scale
    return out.to(input.dtype)


ENDS = torch.tensor([3, 3, 90, 130])
MX = mx_pair(5, 130, 6)
GROUPED = mx_pair(5, 130, 6, ends=ENDS.tolist())
HIFS = {"x1_dtype": HIF8, "x2_dtype": HIF8}
SCALES = {"x1_scale_dtype": E8M0, "x2_scale_dtype": E8M0}
KRONECKER = rand(3, 5, 16), rand(5, 5, seed=1), rand(16, 16, seed=2)
ADAPTERS = (rand(4, 12), rand(4, 6), rand(3, 2, 12, 2), torch.tensor([2, 0, 3, 1], dtype=torch.int32), rand(3, 2, 2, 6))


def adding(name, reference, args, more=(), label="", **kwargs):
    """The operator and its in-place form."""
    return [Case(op, args + tuple(more), reference, kwargs, label=label) for op in (name, name + "_")]


CASES = [
    *adding("npu_add_quant_matmul", add_quant, (rand(5, 6), *MX[:3]), label="mx", x1_scale=MX[3], group_sizes=[1, 1, 32], **SCALES),
    *adding("npu_add_quant_matmul", add_quant, (rand(5, 6), *MX[:2], MX[2].view(torch.float8_e8m0fnu)), label="scales of their type",
            x1_scale=MX[3].view(torch.float8_e8m0fnu)),
    *adding("npu_add_quant_matmul", add_quant, (rand(5, 6), hif8(5, 40), hif8(40, 6), rand(1)), label="hifloat8", x1_scale=rand(1, seed=3),
            group_sizes=[0, 0, 0], **HIFS),
    *adding("npu_add_quant_matmul", add_quant, (rand(0, 6), hif8(0, 40), hif8(40, 6), rand(1)), label="empty", **HIFS)[1:],
    *adding("npu_add_quant_gmm", add_quant_gmm, (rand(4, 5, 6), *GROUPED[:3], ENDS), label="mx", x1_scale=GROUPED[3], **SCALES),
    *adding("npu_add_quant_gmm", add_quant_gmm, (rand(4, 5, 6), *GROUPED[:3], ENDS.diff(prepend=torch.tensor([0]))), label="lengths",
            x1_scale=GROUPED[3], group_list_type=1, **SCALES),
    *adding("npu_add_quant_gmm", add_quant_gmm, (rand(4, 5, 6), hif8(5, 140), hif8(140, 6), rand(4, 6), ENDS),
            label="a scale for each column", x1_scale=rand(4), **HIFS),
    *adding("npu_add_quant_gmm", add_quant_gmm, (rand(4, 5, 6), hif8(5, 140), hif8(140, 6), rand(4, 1), ENDS),
            label="a scale for each group", **HIFS),
    Case("npu_dual_level_quant_matmul", levels(5, 7, 1100), dual_level),
    Case("npu_dual_level_quant_matmul", levels(3, 4, 512), dual_level, {"bias": rand(4)}, label="bias"),
    Case("npu_dual_level_quant_matmul", levels(2, 9, 62), dual_level, {"output_dtype": torch.float16}, label="float16, a short group"),
    Case("npu_kronecker_quant", KRONECKER, kronecker, label="int4"),
    Case("npu_kronecker_quant", (*KRONECKER, 0.75), kronecker, label="clipped"),
    Case("npu_kronecker_quant", (*KRONECKER, None, E2M1), kronecker, label="float4"),
    Case("npu_kronecker_quant", (*KRONECKER, 1.0, E2M1, 7.0), kronecker, label="float4 with a maximum"),
    Case("npu_kronecker_quant", (*KRONECKER[:2], rand(0, 0), 1.0, E2M1), kronecker, label="one side"),
    *(Case("npu_transpose_quant_batchmatmul", *(lambda a: (a[0], transposed, a[1]))(batch_of(3, 2, 128, 5, turned, mx)),
           label=f"{'mx' if mx else 'scales of rows and columns'}{', turned' if turned else ''}")
      for turned in (False, True) for mx in (False, True)),
    Case("npu_transpose_quant_batchmatmul", (hif8(3, 2, 24), hif8(2, 24, 5), torch.bfloat16), transposed,
         {"x2_scale": rand(5), "x1_scale": rand(1), "perm_x1": [1, 0, 2], "perm_y": [1, 0, 2], **HIFS}, label="hifloat8"),
    *of_floats(),
    *experts(),
    *adding("npu_batch_gather_matmul", lora, ADAPTERS),
    *adding("npu_batch_gather_matmul", lora, (ADAPTERS[0], rand(4, 2), *ADAPTERS[2:4]), label="one product", layer_idx=1, scale=2.0),
    *adding("npu_batch_gather_matmul", lora, (rand(4, 20), *ADAPTERS[1:]), label="slice", scale=0.5, y_offset=3, y_slice_size=12),
]
# Cases that the official wheel refuses, or answers otherwise: see test/official/custom_ops.py.
NOT_OFFICIAL = {
    **{str(case): "it takes an Ascend950 only" for case in CASES if case.op == "npu_dual_level_quant_matmul"},
    **{str(case): "it returns its input as it was" for case in CASES if case.op == "npu_batch_gather_matmul"},
}
