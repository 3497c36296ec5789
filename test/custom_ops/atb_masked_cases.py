"""Cases of torch.ops.atb's masked attention, products and numbers, for atb_cases.py.

A mask of booleans, True where a key is hidden, is given to the operator as it wants it in each type: see encoded(). float64 stands for
float32 whatever the type of the rest.
"""

import torch
from cases import Case, rand
from cases_inference import attend, unpaged

INT = torch.int32


def ints(*numbers):
    return torch.tensor(numbers, dtype=INT)


def encoded(case, value, dtype):
    if value.dtype == torch.float64:
        return value.float()
    if value.dtype != torch.bool:
        return value
    hides = -torch.inf if dtype == torch.float16 else 1 if "flash" in case.op else -10000
    return torch.zeros(value.shape, dtype=dtype).masked_fill(value, hides)


def triangle(size):
    return torch.ones(size, size, dtype=torch.bool).triu(1)


def some(*shape):
    """Hides keys at random, but never a token from itself."""
    hidden = torch.rand(shape, generator=torch.Generator().manual_seed(7)) > 0.5
    return hidden & ~torch.eye(shape[-2], shape[-1], dtype=torch.bool)


def in_blocks(mask):
    """(1, columns / 16, rows, 16), which both are filled up to."""
    rows, columns = (-(-size // 16) * 16 for size in mask.shape)
    whole = torch.zeros(rows, columns, dtype=mask.dtype)
    whole[: mask.shape[0], : mask.shape[1]] = mask
    return whole.view(1, rows, columns // 16, 16).transpose(1, 2).contiguous()


def flat(mask):
    return mask[0].transpose(0, 1).flatten(1) if mask.dim() == 4 else mask


def joined(parts):
    return torch.cat([part.transpose(0, 1) for part in parts])


def sequences(tokens, heads, lengths):
    """[heads, length, size] of each."""
    tokens = tokens if tokens.dim() == 3 else tokens.unflatten(1, (heads, -1))
    return [part.transpose(0, 1) for part in tokens[: sum(lengths)].split(list(lengths))]


def in_a_row(q, k, v, mask, lengths, scale, heads, few, out, **_):
    lengths, parts = lengths.tolist(), []
    each = zip(*(sequences(t, n, lengths) for t, n in ((q, heads), (k, few), (v, few))))
    for b, (queries, keys, values) in enumerate(each):
        n, own = lengths[b], mask[b if len(mask) > 1 else 0] if mask.dim() == 3 else flat(mask)
        parts.append(attend(queries, keys, values, scale, ~own[:n, :n])[0])
    return joined(parts).view(out.shape)


def with_alibi(q, k, v, lengths, *, mask, scale_value, num_heads, num_kv_heads, out, **_):
    parts = []
    each = zip(*(sequences(t, n, lengths) for t, n in ((q, num_heads), (k, num_kv_heads), (v, num_kv_heads))))
    for b, (queries, keys, values) in enumerate(each):
        n, bias = lengths[b], (mask if mask.dim() == 3 else mask[b if len(mask) > 1 else 0]).expand(num_heads, -1, -1)
        parts.append(attend(queries, keys, values, scale_value, torch.ones(n, n, dtype=torch.bool), bias)[0])
    return joined(parts).view(out.shape)


def by_distance(q, k, v, tile, lengths, scale, heads, few, mask_type=3, out=None):
    tile, n = flat(tile), max(lengths.tolist())
    most = len(tile) - 1
    whole = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        for j in range(n):
            row, column = (i, j) if n <= len(tile) else (min(max(i - j, 0), most), min(max(j - i, 0), most))
            whole[i, j] = tile[row, column]
    return in_a_row(q, k, v, whole, lengths, scale, heads, few, out)


# heads, heads of keys, sizes of a key and of a value, lengths, scale, mask
ROWS = {"two": (4, 2, 8, 8, (2, 3), 0.3, triangle(3)), "a larger mask": (2, 2, 8, 8, (1, 4), 1.0, triangle(9)),
        "values of another size": (4, 1, 8, 6, (5,), 0.5, triangle(5)), "one of them empty": (2, 1, 8, 8, (2, 0, 3), 0.3, triangle(3)),
        "every key": (3, 3, 4, 4, (4, 2), 0.6, torch.zeros(4, 4, dtype=torch.bool)), "any keys": (2, 1, 8, 8, (6, 3), -0.4, some(6, 6)),
        "a mask of each": (4, 4, 8, 8, (3, 1, 4), 0.3, some(3, 5, 5)), "one of three dimensions": (2, 2, 8, 8, (3, 4), 0.3, some(1, 4, 4)),
        "in blocks": (2, 2, 16, 16, (3, 18), 0.2, in_blocks(triangle(18)))}
TILES = {"two": (4, 2, 8, 8, (2, 3), 0.3, triangle(3)), "longer": (4, 2, 8, 8, (7, 3), 0.3, triangle(4)),
         "every key": (2, 2, 8, 8, (3, 2), 0.5, torch.zeros(3, 3, dtype=torch.bool)),
         "every key, longer": (2, 1, 8, 4, (9, 0, 2), 0.5, torch.zeros(3, 3, dtype=torch.bool)),
         "a window, longer": (2, 1, 8, 8, (9,), 0.3, triangle(4) | torch.ones(4, 4, dtype=torch.bool).tril(-3)),
         "in blocks": (2, 2, 16, 16, (20, 5), 0.2, in_blocks(triangle(32))), "one token": (1, 1, 8, 8, (1,), 0.3, triangle(2))}
ATTENTION = []


def tokens(heads, few, size, of_values, count):
    q, k, v = rand(count, heads, size), rand(count, few, size, seed=1), rand(count, few, of_values, seed=2)
    return q, k, v, torch.zeros(count, heads, of_values)


for label, (heads, few, size, of_values, lengths, scale, mask) in ROWS.items():
    *qkv, out = tokens(heads, few, size, of_values, sum(lengths))
    args = (*qkv, mask, ints(*lengths), scale, heads, few, out)
    ATTENTION.append(Case("_npu_flash_attention", args, in_a_row, label=label, written=(8,)))
    if label == "two":
        two = [t.flatten(1) for t in (*qkv, out)]
        ATTENTION.append(Case("_npu_flash_attention", (*two[:3], mask, ints(*lengths), scale, heads, few, two[3]), in_a_row,
                              label="joined heads", written=(8,)))
for number, (label, (heads, few, size, of_values, lengths, scale, mask)) in enumerate(TILES.items()):
    *qkv, out = tokens(heads, few, size, of_values, sum(lengths))
    options = {"out": out} if number % 3 == 0 else {"mask_type": 3 if number % 3 == 1 else None, "out": out}
    ATTENTION.append(Case("_npu_flash_attention_v3", (*qkv, mask, ints(*lengths), scale, heads, few), by_distance, options, label=label,
                          written=("out",)))
for label, heads, few, lengths, shape in (("each head", 4, 2, (2, 3), (4, 3, 3)), ("each sequence", 2, 1, (3, 1), (2, 2, 4, 4)),
                                          ("one head for all", 2, 2, (4,), (1, 4, 4)), ("one sequence for all", 2, 2, (3, 4), (1, 2, 5, 5)),
                                          ("one of them empty", 4, 4, (2, 0, 2), (3, 1, 2, 2)), ("one token", 3, 1, (1, 1), (3, 1, 1))):
    *qkv, out = tokens(heads, few, 8, 8, sum(lengths))
    bias = rand(*shape, seed=3).masked_fill(triangle(shape[-1]), -torch.inf)
    ATTENTION.append(Case("_npu_flash_attention_v2.out", (*qkv, list(lengths)), with_alibi, {"mask": bias, "scale_value": 0.3,
                          "num_heads": heads, "num_kv_heads": few, "out": out, "kernel_type": len(lengths) % 2}, label=label))


def spread(cache, heads):
    """[blocks, tokens of a block, heads * size], of any of the forms of a cache."""
    return cache if cache.dim() == 3 else cache.flatten(2) if cache.shape[2] == heads else cache.transpose(1, 2).flatten(2)


def over_pages(q, kc, vc, table, context, lengths, heads, few, scale, visible, out, bias=None):
    """visible(rows, columns) of a sequence, or its rows of bias."""
    parts, first = [], 0
    for b, queries in enumerate(sequences(q, heads, lengths)):
        k, v = (unpaged(spread(t, few), table[b], context[b], few) for t in (kc, vc))
        n = lengths[b]
        numbers = None if bias is None else bias[first : first + n].expand(heads, -1, -1)
        parts.append(attend(queries, k, v, scale, visible(first, n, context[b]), numbers)[0])
        first += n
    return joined(parts).view(out.shape)


def to_the_last(_, rows, columns):
    return torch.arange(columns) <= torch.arange(rows)[:, None] + columns - rows


def qlens(q, kc, vc, table, mask, lengths, context, few, heads, scale, out):
    return over_pages(q, kc, vc, table, context.tolist(), lengths.tolist(), heads, few, scale, to_the_last, out)


def prefix(q, kc, vc, table, mask, lengths, context, *, num_heads, num_kv_heads, scale_value, out, **_):
    return over_pages(q, kc, vc, table, context, lengths, num_heads, num_kv_heads, scale_value, to_the_last, out)


def fused_v2(q, kc, vc, table, context, mask, lengths, few, heads, scale, mask_type=5, out=None):
    return over_pages(q, kc, vc, table, context.tolist(), lengths.tolist(), heads, few, scale, to_the_last, out)


def fused(q, kc, vc, table, context, mask, lengths, few, heads, scale, out):
    mask, bias = flat(mask), None
    if mask.is_floating_point():
        bias, mask = mask, torch.zeros(mask.shape, dtype=torch.bool)
    return over_pages(q, kc, vc, table, context.tolist(), lengths.tolist(), heads, few, scale,
                      lambda first, rows, columns: ~mask[first : first + rows, :columns], out, bias)


def causal_rows(lengths, context, columns):
    return torch.cat([torch.arange(columns) > torch.arange(n)[:, None] + kv - n for n, kv in zip(lengths, context)])


def by_sixteen(cache):
    """[blocks, heads * size / 16, tokens of a block, 16]."""
    return cache.flatten(2).unflatten(2, (-1, 16)).transpose(1, 2).contiguous()


# heads, heads of keys, size, pages of each sequence, lengths of query and of context, scale, form of the caches
PAGES = {"ragged": (4, 2, 8, ((2, -1), (0, 1), (3, 1)), (2, 5, 1), (3, 8, 5), 0.3, None),
         "all of it": (2, 2, 8, ((0, 3), (1, 2)), (6, 4), (6, 4), 1.0, None),
         "one token each": (2, 1, 8, ((0, 1), (2, 3)), (1, 1), (5, 8), 0.5, None),
         "as many each": (4, 4, 8, ((3, 0), (1, 2)), (3, 3), (7, 3), 0.3, None),
         "one of them empty": (4, 1, 8, ((0, 1), (2, 2), (3, 1)), (2, 0, 3), (6, 4, 3), 0.3, None),
         "blocks of sixteen": (4, 2, 32, ((2, 0), (3, 1)), (3, 2), (7, 6), 0.2, by_sixteen),
         "heads in a row": (2, 1, 8, ((1, 2), (1, 3)), (2, 4), (8, 6), -0.3, lambda cache: cache.flatten(2))}
FULL = triangle(2048)
for number, (label, (heads, few, size, tables, lengths, context, scale, form)) in enumerate(PAGES.items()):
    q, out, table = rand(sum(lengths), heads, size), torch.zeros(sum(lengths), heads, size), torch.tensor(tables, dtype=INT)
    caches = [rand(4, 4, few, size, seed=seed) for seed in (1, 2)]
    first = (q, *(caches if form is None else map(form, caches)), table)
    named = {"num_heads": heads, "num_kv_heads": few, "scale_value": scale, "out": out, "kernel_type": number % 2}
    kind = {"mask_type": (None, 5)[number % 2]} if number % 3 else {}
    rows = causal_rows(lengths, context, max(context))
    given = {"one token each": some(2, 8), "as many each": rand(6, 9, seed=4), "all of it": in_blocks(rows)}.get(label, rows)
    ATTENTION += [
        Case("_npu_flash_attention_qlens", (*first, triangle(128), ints(*lengths), ints(*context), few, heads, scale, out), qlens,
             label=label, written=(10,)),
        Case("_npu_flash_attention_prefix_v2.out", (*first, triangle(128), list(lengths), list(context)), prefix, named, label=label),
        Case("_npu_paged_attention_splitfuse", (*first, ints(*context), given, ints(*lengths), few, heads, scale, out), fused, label=label,
             written=(10,)),
        Case("_npu_paged_attention_splitfuse_v2", (*first, ints(*context), FULL, ints(*lengths), few, heads, scale), fused_v2,
             {**kind, "out": out}, label=label, written=("out",)),
    ]


def latent(q, cache, few, heads, scale, table, context, size, out):
    return over_pages(q, cache.flatten(2), cache[..., :size].flatten(2), table, context.tolist(), [1] * len(q), heads, few, scale,
                      to_the_last, out)


for label, heads, few, key, value, tables, context in (
    ("one head of keys", 4, 1, 12, 8, ((2, -1), (0, -1), (3, 1)), (3, 1, 5)), ("grouped", 4, 2, 12, 8, ((0, 1), (2, 3)), (8, 6)),
    ("the whole key", 2, 1, 8, 8, ((1, -1), (3, -1)), (4, 2)), ("one number of it", 2, 2, 8, 1, ((0, 1),), (7,)),
    ("as in DeepSeek", 16, 1, 576, 512, ((3, 0), (1, 2)), (6, 8)), ("one without keys", 2, 1, 12, 4, ((0, 1), (2, 2)), (5, 0)),
):
    q, out = rand(len(context), heads, key), torch.zeros(len(context), heads, value)
    ATTENTION.append(Case("_npu_paged_attention_mla", (q, rand(4, 4, few, key, seed=1), few, heads, 0.1, torch.tensor(tables, dtype=INT),
                                                       ints(*context), value, out), latent, label=label, written=(8,)))



def in_parts(q, q_rope, cache, rope, table, context, heads, scale, few, return_lse=None, **_):
    """Attention over keys that are joined of both parts, and the logarithms of its sums if return_lse is given."""
    both, parts, sums = torch.cat([q, q_rope], -1), [], []
    for token, pages, length in zip(both, table, context):
        latent, turned = (unpaged(spread(t, few), pages, length, few) for t in (cache, rope))
        seen = torch.ones(1, length, dtype=torch.bool)
        out, total = attend(token[:, None], torch.cat([latent, turned], -1), latent, scale, seen)
        parts.append(out[:, 0]), sums.append(total[:, 0])
    results = torch.stack(parts), torch.stack(sums) if return_lse else torch.empty(0)
    return results[0] if return_lse is None else results


LATENT = "npu_multi_head_latent_attention"
# heads, heads of keys, sizes of the latent and of the rotary part, pages and length of each sequence, form of the caches, options
IN_PARTS = {"one head of keys": (4, 1, 8, 4, ((2, -1), (0, -1), (3, 1)), (3, 1, 5), None, {}),
            "grouped": (4, 2, 8, 6, ((0, 1), (2, 3)), (8, 6), None, {"cache_mode": "krope_ctkv"}),
            "ring": (2, 2, 4, 4, ((1, -1), (3, -1)), (4, 2), None, {"calc_type": "calc_type_ring", "mask_type": "undefined"}),
            "blocks of sixteen": (4, 2, 32, 16, ((2, 0), (3, 1)), (7, 6), by_sixteen, {"cache_mode": "nzcache"}),
            "as in DeepSeek": (16, 1, 512, 64, ((3, 0), (1, 2)), (6, 8), None, {"calc_type": "calc_type_undefined"}),
            "heads in a row": (2, 1, 8, 4, ((0, 1), (2, 2)), (5, 3), lambda cache: cache.flatten(2), {})}
for label, (heads, few, size, turned, tables, context, form, options) in IN_PARTS.items():
    caches = [rand(4, 4, few, n, seed=n) for n in (size, turned)]
    args = (rand(len(context), heads, size), rand(len(context), heads, turned, seed=3), *(caches if form is None else map(form, caches)),
            torch.tensor(tables, dtype=INT), list(context), heads, 0.2, few)
    out, lse = torch.zeros(len(context), heads, size), torch.zeros(len(context), heads, 1)
    ATTENTION += [
        Case(LATENT, args, in_parts, options, label=label),
        Case(f"{LATENT}.out", args, in_parts, {**options, "output": out}, label=label),
        Case(f"{LATENT}.lse", (*args, heads != 2), in_parts, options, label=label),
        Case(f"{LATENT}.lse_out", (*args, True), in_parts, {**options, "output": out, "lse": lse}, label=label),
        Case(f"_{LATENT}_get_workspace.lse", (*args, True), lambda *_, **__: torch.empty(0, dtype=torch.uint8), options, label=label),
    ]

NUMBERS = [Case("_npu_matmul_add_fp32", (x, w, rand(x.shape[1], w.shape[1], seed=3).double()), lambda x, w, c: c.float() + x.T @ w,
                label=label, written=(2,))
           for label, x, w in (("four by four", rand(2, 4), rand(2, 4, seed=1)), ("tall", rand(64, 3), rand(64, 5, seed=1)),
                               ("one row", rand(1, 6), rand(1, 7, seed=1)), ("no rows", rand(0, 6), rand(0, 7)),
                               ("one column", rand(5, 1), rand(5, 3, seed=1)), ("strided", rand(4, 9).T, rand(9, 12, seed=1)[:, ::2]))]


def to_int8(x, scale, zero_point, _):
    return ((x / scale).round() + (zero_point if zero_point.numel() else 0)).clamp(-128, 127).to(torch.int8)


def steps(*shape):
    """Multiples of a quarter, which every type has."""
    return torch.randint(-60, 60, shape, generator=torch.Generator().manual_seed(2)) / 4


HALF, POINT = torch.tensor([0.5]), torch.tensor([3], dtype=torch.int8)
NUMBERS += [Case("_npu_quantize_per_tensor", (x, scale, zero, torch.zeros(x.shape, dtype=torch.int8)), to_int8, label=label, written=(3,))
            for label, x, scale, zero in (
                ("one scale", steps(3, 8), HALF, POINT), ("out of range", steps(3, 8), HALF / 16, -POINT),
                ("no offset", steps(2, 3, 4), HALF, POINT[:0]),
                ("a scale of each column", steps(3, 4), torch.tensor([0.5, 1, 2, 0.25]), torch.arange(4, dtype=torch.int8)),
                ("a scale of each number", steps(1, 2, 3), steps(2, 3).abs() * 0 + 2, torch.full((2, 3), -7, dtype=torch.int8)),
                ("one dimension", steps(9), HALF * 4, POINT))]


def chosen(x, k, group_num, n=1):
    kept = torch.zeros_like(x)
    size = x.shape[1] // group_num
    for row, result in zip(x, kept):
        sums = [sum(sorted(row[g * size : (g + 1) * size].tolist())[-n:]) for g in range(group_num)]
        for g in sorted(range(group_num), key=lambda g: -sums[g])[:k]:
            result[g * size : (g + 1) * size] = row[g * size : (g + 1) * size]
    return kept


NUMBERS += [Case("_npu_group_topk", (rand(*shape),), chosen, options, label=label, written=(0,)) for label, shape, options in (
    ("two of four", (5, 16), {"k": 2, "group_num": 4}), ("by their best two", (5, 16), {"k": 1, "group_num": 4, "n": 2}),
    ("all", (3, 8), {"k": 2, "group_num": 2}), ("groups of one", (3, 8), {"k": 3, "group_num": 8}),
    ("one row", (1, 12), {"k": 1, "group_num": 3}),
    ("by whole groups", (4, 12), {"k": 2, "group_num": 3, "n": 4}), ("no rows", (0, 8), {"k": 1, "group_num": 4}))]
NUMBERS.append(Case("_npu_group_topk", (torch.ones(2, 8),), chosen, {"k": 2, "group_num": 4}, label="equal", written=(0,)))


def ring(q, q_rope, k, k_rope, v, mask, seqlen, heads, few, *, pre_out=None, prev_lse=None, qk_scale=1.0, mask_type=None, calc_type=None,
         **_):  # fmt: skip
    """One part of the keys, joined with what was before by the logarithms of the sums."""
    lengths = seqlen.view(-1, seqlen.shape[-1]).tolist()
    queries, keys, values = (sequences(t, n, lengths[at]) for t, n, at in (
        (torch.cat([q, q_rope], -1), heads, 0), (torch.cat([k, k_rope], -1), few or heads, -1), (v, few or heads, -1)))
    parts, sums = zip(*(attend(a, b, c, qk_scale, ~triangle(a.shape[1]) if mask_type == "mask_type_triu" else
                               torch.ones(a.shape[1], b.shape[1], dtype=torch.bool)) for a, b, c in zip(queries, keys, values)))
    out, lse = joined(parts), torch.cat(sums, 1)[..., 0]
    if calc_type != "calc_type_default":
        return out, lse
    total = torch.logaddexp(prev_lse.float(), lse)
    mine, others = ((part - total).exp().T[..., None] for part in (lse, prev_lse.float()))
    return out * mine + pre_out * others, total


TRIANGLE = {"mask_type": "mask_type_triu", "calc_type": "calc_type_first_ring", "kernel_type": "kernel_type_high_precision"}
JOIN = {"mask_type": "no_mask", "calc_type": "calc_type_default", "input_layout": "type_bsnd"}
# heads, heads of keys, sizes of latent part, rotary part and value, lengths of queries, of keys, options
RINGS = {"first": (4, 4, 8, 4, 8, (2, 4), None, TRIANGLE), "defaults": (2, 0, 8, 4, 8, (3, 1), None, {}),
         "grouped": (4, 2, 8, 4, 6, (2, 1), (5, 3), {"kernel_type": "kernel_type_default"}),
         "joined": (4, 4, 8, 4, 8, (2, 3), (4, 1), JOIN), "one without keys": (2, 2, 8, 4, 8, (2, 1, 2), (3, 0, 5), JOIN),
         "no keys": (2, 1, 8, 4, 8, (2, 1), (0, 0), JOIN), "as in DeepSeek": (4, 4, 128, 64, 128, (3, 6), None, TRIANGLE),
         "joined as in DeepSeek": (4, 4, 128, 64, 128, (3, 6), (9, 4), JOIN)}
RING = []
for label, (heads, few, size, turned, wide, lengths, counts, options) in RINGS.items():
    rows, keys, given = sum(lengths), sum(counts or lengths), few or heads
    parts = [rand(count, n, width, seed=at) for at, (count, n, width) in enumerate(
        ((rows, heads, size), (rows, heads, turned), (keys, given, size), (keys, given, turned), (keys, given, wide)))]
    seqlen = ints(*lengths) if counts is None else torch.tensor([lengths, counts], dtype=INT)
    args = (*parts, torch.zeros(512, 512), seqlen, heads, few)
    before = {"pre_out": rand(rows, heads, wide, seed=8), "prev_lse": rand(heads, rows, seed=9).double()} if options is JOIN else {}
    results = {"output": torch.zeros(rows, heads, wide), "softmax_lse": torch.zeros(heads, rows).double()}
    for op, out in (("npu_ring_mla", {}), ("npu_ring_mla.out", results)):
        RING.append(Case(op, args, ring, {"qk_scale": 0.2, **options, **before, **out}, label=label))

CASES = [*ATTENTION, *NUMBERS, *RING]
