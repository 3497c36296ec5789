"""Caches of keys and values: cases, and plain loops over their tokens."""

import torch
from cases import Case, rand, rms, rotate_half, updated

DATA, PLACES = rand(3, 4), torch.tensor([[0], [2]])
LIST = [rand(3, 6, 4, seed=s) for s in range(2)]
TOKENS, VALUES, SLOTS = rand(4, 2, 16), rand(4, 2, 16, seed=1), torch.tensor([5, 0, -1, 10], dtype=torch.int32)
NORM, FRACTAL = (4, 3, 2, 16), (4, 2, 3, 16)  # blocks of three tokens


def listed(tensors, indices, updates, mask=None, reduce="update", axis=-2):
    result = [t.clone() for t in tensors]
    for i, t in enumerate(result):
        if mask is None or mask[i]:
            t.narrow(axis, int(indices[i]), updates.shape[axis]).copy_(updates[i])
    return result


def at_slots(cache, tokens, slots, mode="Norm"):
    cache = cache.clone()
    for token, slot in zip(tokens, slots.tolist()):
        if slot < 0:
            continue
        if mode == "Norm":
            cache[slot // 3, slot % 3] = token
        else:
            cache[slot // 3, :, slot % 3] = token.reshape(cache.shape[1], cache.shape[3])
    return cache


def pages(key_cache, value_cache, tables, lengths, key, value, *, seq_offset=None, is_seq_lens_cumsum=False):
    lengths = lengths.diff() if is_seq_lens_cumsum else lengths
    result = []
    for cache, out in ((key_cache, key.clone()), (value_cache, value.clone())):
        at = 0
        for b, length in enumerate(lengths.tolist()):
            first = 0 if seq_offset is None else int(seq_offset[b]) // 3
            for t in range(length):
                entry = first + t // 3
                block = int(tables[b, entry]) if entry < tables.shape[1] else -1
                out[at] = cache[block, t % 3] if 0 <= block < len(cache) else 0
                at += 1
        result.append(out)
    return tuple(result)


GATHER = (
    rand(*NORM),
    rand(4, 3, 2, 8),
    torch.tensor([[3, 1], [2, 7]], dtype=torch.int32),
    torch.tensor([4, 5], dtype=torch.int32),
    torch.full((9, 2, 16), 7.0),
    torch.full((9, 2, 8), 7.0),
)
KV, GAMMA = rand(2, 1, 4, 20), rand(16)
COS, SIN = rand(2, 1, 4, 4, seed=1), rand(2, 1, 4, 4, seed=2)


def normed(
    kv,
    gamma,
    cos,
    sin,
    index,
    k_cache,
    ckv_cache,
    *,
    k_rope_scale=None,
    c_kv_scale=None,
    epsilon=1e-5,
    cache_mode="Norm",
    is_output_kv=False,
    **_,
):
    y = rms(kv[..., :16], gamma, epsilon)[0]
    k = torch.cat([kv[..., 16::2], kv[..., 17::2]], -1)
    k = k * cos + rotate_half(k) * sin
    written = []
    for cache, values, scale in ((k_cache, k, k_rope_scale), (ckv_cache, y, c_kv_scale)):
        cache = cache.clone()
        stored = values if scale is None else (values * scale).round().clamp(-128, 127).to(torch.int8)
        for b in range(2):
            for s in range(4):
                if cache_mode == "Norm":
                    cache[b, :, index[b, s]] = stored[b, :, s]
                    continue
                if "BLK" in cache_mode:
                    start = int(index.view(2, -1)[b, s // 3])
                    slot = start if start < 0 else start // 3 * 3 + s % 3
                else:
                    slot = int(index[b * 4 + s])
                if slot >= 0 and cache_mode.endswith("NZ"):
                    width = 32 if cache.dtype == torch.int8 else 16
                    cache.view(len(cache), -1, 3, width)[slot // 3, :, slot % 3] = stored[b, :, s].reshape(-1, width)
                elif slot >= 0:
                    cache[slot // 3, slot % 3] = stored[b, :, s]
        written.append(cache)
    return (*written, *((k, y) if is_output_kv else ()))


def kv_cases(name, order):
    flat = torch.tensor([7, 2, -1, 0, 4, 9, 10, 8])
    for label, index, shape, options in [
        ("", torch.tensor([[4, 0, 1, 3], [2, 3, 4, 0]]), (2, 1, 5), {}),
        ("pages", flat, (4, 3, 1), {"cache_mode": "PA_BNSD", "is_output_kv": True}),
        ("blocks", torch.tensor([3, 0, -1, 9]), (4, 3, 1), {"cache_mode": "PA_BLK_BNSD", "is_output_kv": True}),
    ]:
        yield Case(
            name,
            (KV, GAMMA, COS, SIN, index, torch.zeros(*shape, 4), torch.zeros(*shape, 16)),
            lambda *a, **kwargs: order(*normed(*a, **kwargs)),
            options,
            label=label,
        )
    yield Case(
        name,
        (KV, GAMMA, COS, SIN, flat, torch.zeros(4, 3, 1, 4, dtype=torch.int8), torch.zeros(4, 3, 1, 16, dtype=torch.int8)),
        lambda *a, **kwargs: order(*normed(*a, **kwargs)),
        {"cache_mode": "PA", "k_rope_scale": torch.full((4,), 20.0), "c_kv_scale": torch.full((16,), 30.0), "is_output_kv": True},
        label="int8",
    )


QKV = (
    rand(4, 5 * 16),
    rand(16),
    rand(16, seed=1),
    rand(4, 16, seed=2),
    rand(4, 16, seed=3),
    torch.tensor([5, -1, 0, 10]),
    torch.zeros(4, 32),
    torch.zeros(4, 1, 3, 16),
    torch.zeros(4, 2, 3, 16),
    [2, 2, 5, 16],
    [2, 1, 2],
)


def joined(
    qkv,
    q_gamma,
    k_gamma,
    cos,
    sin,
    index,
    q_out,
    k_cache,
    v_cache,
    size,
    heads,
    *,
    k_scale=None,
    v_scale=None,
    k_offset=None,
    v_offset=None,
    epsilon=1e-6,
    cache_mode="PA_NZ",
    is_output_qkv=False,
):
    q, k, v = qkv.view(4, 5, 16).split(heads, 1)
    q, k = (((y := rms(x, g, epsilon)[0]) * cos[:, None] + rotate_half(y) * sin[:, None]) for x, g in ((q, q_gamma), (k, k_gamma)))

    def stored(x, scale, offset):
        return x if scale is None else (x / scale + (0 if offset is None else offset)).round().clamp(-128, 127).to(torch.int8)

    caches = (
        at_slots(k_cache, stored(k, k_scale, k_offset), index, "PA_NZ"),
        at_slots(v_cache, stored(v, v_scale, v_offset), index, "PA_NZ"),
    )
    return *(t.flatten(1) for t in (q, k, v)), q.flatten(1), *caches


HIDDEN, RANK, HEADS, SIZE, LATENT, TURNED = 12, 6, 3, 8, 16, 4


def prolog(
    token_x,
    weight_dq,
    weight_uq_qr,
    weight_uk,
    weight_dkv_kr,
    gamma_cq,
    gamma_ckv,
    sin,
    cos,
    index,
    kv_cache,
    kr_cache,
    *,
    rmsnorm_epsilon_cq=1e-5,
    rmsnorm_epsilon_ckv=1e-5,
    cache_mode="PA_BSND",
    qc_qr_scale=1.0,
    kc_scale=1.0,
    **_,
):
    """(query, query_rope, kv_cache, kr_cache, normed query)."""

    def turn(pairs):
        x = torch.cat([pairs[..., ::2], pairs[..., 1::2]], -1)
        return x * cos.view(-1, 1, TURNED) + rotate_half(x) * sin.view(-1, 1, TURNED)

    shape, x = token_x.shape[:-1], token_x.reshape(-1, HIDDEN)
    norm = rms(x @ weight_dq, gamma_cq, rmsnorm_epsilon_cq)[0]
    q = (norm @ weight_uq_qr).view(-1, HEADS, SIZE + TURNED) * qc_qr_scale
    query = torch.stack([q[:, h, :SIZE] @ weight_uk[h] for h in range(HEADS)], 1)
    kv = x @ weight_dkv_kr
    latent, rope = rms(kv[:, :LATENT], gamma_ckv, rmsnorm_epsilon_ckv)[0][:, None] * kc_scale, turn(kv[:, None, LATENT:])
    if cache_mode.startswith("PA"):
        caches = [at_slots(c, v, index.flatten()) for c, v in ((kv_cache, latent), (kr_cache, rope))]
    else:
        caches = [v.view_as(c) for c, v in ((kv_cache, latent), (kr_cache, rope))]
    return query.view(*shape, HEADS, LATENT), turn(q[..., SIZE:]).view(*shape, HEADS, TURNED), *caches, norm.view(*shape, RANK)


def weights(*tokens):
    return (
        rand(*tokens, HIDDEN),
        rand(HIDDEN, RANK),
        rand(RANK, HEADS * (SIZE + TURNED)),
        rand(HEADS, SIZE, LATENT),
        rand(HIDDEN, LATENT + TURNED),
        rand(RANK),
        rand(LATENT),
        rand(*tokens, TURNED),
        rand(*tokens, TURNED, seed=1),
    )


CACHES = torch.zeros(4, 3, 1, LATENT), torch.zeros(4, 3, 1, TURNED)
PLACES_OF = torch.tensor([5, 0, 11, 2])


def third(*a, cache_index=None, query_norm_flag=False, **kwargs):
    query, rope, kv, kr, norm = prolog(*a[:9], cache_index, *a[9:], **kwargs)
    return query.bfloat16(), rope.bfloat16(), torch.empty(0), norm if query_norm_flag else torch.empty(0), torch.empty(0), kv, kr


def second(*a, **kwargs):
    query, rope, kv, kr, _ = prolog(*a, **kwargs)
    return query, rope.bfloat16(), kv, kr, torch.zeros(1)


def first(*args, **kwargs):
    return second(*args, **kwargs)[:4]


CASES = [
    Case("npu_mla_prolog", (*weights(4), PLACES_OF, *CACHES), first),
    Case("npu_mla_prolog", (*weights(2, 2), PLACES_OF.view(2, 2), *CACHES), first, label="batch"),
    Case("npu_mla_prolog", (*weights(4), PLACES_OF, *CACHES), first, {"rmsnorm_epsilon_cq": 1e-2, "rmsnorm_epsilon_ckv": 1e-3},
         label="epsilons"),
    Case("npu_mla_prolog_v2", (*weights(4), PLACES_OF, *CACHES), lambda *a, **kwargs: second(*a, **kwargs)[:4]),
    Case(
        "npu_mla_prolog_v2",
        (*weights(2, 2), PLACES_OF.view(2, 2), *CACHES),
        second,
        label="batch",
    ),
    Case(
        "npu_mla_prolog_v3",
        (*weights(4), *CACHES),
        lambda *a, **kwargs: third(*a, **kwargs)[:5],
        {"cache_index": PLACES_OF, "query_norm_flag": True, "rmsnorm_epsilon_cq": 1e-3},
    ),
    Case(
        "npu_mla_prolog_v3_functional",
        (*weights(2, 2), *CACHES),
        third,
        {"cache_index": PLACES_OF.view(2, 2), "qc_qr_scale": 0.5, "kc_scale": 2.0},
    ),
    Case(
        "npu_mla_prolog_v3_functional",
        (*weights(4), torch.zeros(4, 1, LATENT), torch.zeros(4, 1, TURNED)),
        third,
        {"cache_mode": "TND"},
        label="rows",
    ),
    Case("scatter_update", (rand(2, 3, 6, 4), torch.tensor([1, 4]), rand(2, 3, 2, 4), -2), updated),
    Case("scatter_update_", (rand(2, 3, 6, 4), torch.tensor([1, 4]), rand(2, 3, 2, 4), 2), updated),
    *[
        Case(name, (DATA, PLACES, rand(2, 4)), lambda x, i, u: x.index_copy(0, i[:, 0], u))
        for name in ("npu_scatter_nd_update", "npu_scatter_nd_update_")
    ],
    Case(
        "npu_scatter_nd_update_",
        (rand(3, 4, 2), torch.tensor([[0, 3], [2, 1]], dtype=torch.int32), rand(2, 2)),
        lambda x, i, u: x.index_put(tuple(i.long().unbind(-1)), u),
        label="two dimensions",
    ),
    Case("npu_scatter_list", (LIST, torch.tensor([1, 4]), rand(2, 3, 2, 4)), listed),
    Case(
        "npu_scatter_list",
        (LIST, torch.tensor([1, 2]), rand(2, 3, 6, 1), torch.tensor([1, 0], dtype=torch.uint8), "update", -1),
        listed,
        label="mask",
    ),
    Case("npu_scatter_list_", ([t.clone() for t in LIST], torch.tensor([1, 4]), rand(2, 3, 2, 4)), lambda *_: None),
    Case(
        "npu_scatter_pa_cache.value", (TOKENS, SLOTS), lambda t, s, key_cache: at_slots(key_cache, t, s), {"key_cache": torch.zeros(NORM)}
    ),
    *[
        Case(
            "npu_scatter_pa_kv_cache",
            (TOKENS, VALUES, torch.zeros(shape), torch.zeros(shape), SLOTS),
            lambda *_, **__: None,
            {"cache_mode": mode},
            label=mode,
        )
        for mode, shape in (("Norm", NORM), ("PA_NZ", FRACTAL))
    ],
    *[
        Case(
            "npu_scatter_pa_kv_cache_functional",
            (TOKENS, VALUES, torch.zeros(shape), torch.zeros(shape), SLOTS),
            lambda k, v, kc, vc, s, cache_mode: (at_slots(kc, k, s, cache_mode), at_slots(vc, v, s, cache_mode)),
            {"cache_mode": mode},
            label=mode,
        )
        for mode, shape in (("Norm", NORM), ("PA_NZ", FRACTAL))
    ],
    Case("npu_gather_pa_kv_cache", GATHER, lambda *_, **__: None),
    Case("npu_gather_pa_kv_cache_functional", GATHER, pages),
    Case(
        "npu_gather_pa_kv_cache_functional",
        (*GATHER[:3], torch.tensor([0, 3, 9], dtype=torch.int32), *GATHER[4:]),
        pages,
        {"is_seq_lens_cumsum": True, "seq_offset": torch.tensor([3, 2], dtype=torch.int32)},
        label="from an offset",
    ),
    *kv_cases("npu_kv_rmsnorm_rope_cache", lambda *t: t),
    *kv_cases("npu_kv_rmsnorm_rope_cache_v2", lambda *t: t[2:]),
    *kv_cases("npu_kv_rmsnorm_rope_cache_v2_functional", lambda *t: (*t[2:], *t[:2]) if len(t) == 4 else ()),
    Case("npu_qkv_rms_norm_rope_cache", QKV, lambda *a, **kwargs: joined(*a, **kwargs)[:3], {"is_output_qkv": True}),
    Case("npu_qkv_rms_norm_rope_cache_functional", QKV, joined, {"is_output_qkv": True}),
    Case(
        "npu_qkv_rms_norm_rope_cache_functional",
        (*QKV[:7], QKV[7].char(), QKV[8].char(), *QKV[9:]),
        joined,
        {
            "is_output_qkv": True,
            "k_scale": torch.full((1, 16), 0.1),
            "v_scale": torch.full((2, 16), 0.2),
            "v_offset": torch.full((2, 16), 3.0),
        },
        label="int8",
    ),
]
