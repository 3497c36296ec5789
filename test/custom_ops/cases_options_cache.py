"""Caches of keys and values: other modes, slots and sizes; the operators that return nothing are compared by what they write."""

import torch
from cases import Case, rand, updated
from cases_cache import (
    CACHES,
    COS,
    GAMMA,
    GATHER,
    KV,
    LATENT,
    LIST,
    QKV,
    SIN,
    TOKENS,
    TURNED,
    at_slots,
    first,
    joined,
    listed,
    normed,
    pages,
    second,
    third,
    weights,
)

INT = torch.int32


def ints(*numbers):
    return torch.tensor(numbers, dtype=INT)


SEQUENCES = {"every place": (rand(3, 2, 4, 2), torch.tensor([0, 2, 1]), rand(3, 2, 2, 2), -2),
             "many": (rand(8, 1, 6, 1), torch.arange(8) % 5, rand(8, 1, 2, 1), 2),
             "the last": (rand(1, 3, 2, 5), ints(0), rand(1, 3, 2, 5, seed=1), -2)}
PLACES = {"rows of a cube": (rand(4, 2, 3), torch.tensor([[3], [0]]), rand(2, 2, 3)),
          "numbers": (rand(3, 4), torch.tensor([[0, 3], [2, 1], [1, 1]]), rand(3)),
          "many": (rand(50, 2), torch.arange(0, 50, 3)[:, None].int(), rand(17, 2))}
LISTS = {"rows of three": ([rand(2, 5, 3), rand(2, 5, 3, seed=1)], torch.tensor([2, 0]), rand(2, 2, 2, 3), None, "update", -2),
         "all hidden": (LIST, torch.tensor([0, 1]), rand(2, 3, 2, 4), torch.zeros(2, dtype=torch.uint8), "update"),
         "last axis": (LIST, torch.tensor([1, 3]), rand(2, 3, 6, 1), None, "update", -1)}
ROWS = {"no slot": (TOKENS, torch.full((4,), -1, dtype=INT)), "one head": (rand(3, 1, 16), ints(4, 3, 11)),
        "in order": (rand(6, 2, 16), torch.arange(6))}


def shape_for(tokens, mode):
    return (4, 3, tokens.shape[1], 16) if mode == "Norm" else (4, tokens.shape[1], 3, 16)


def both(k, v, kc, vc, slots, cache_mode="PA_NZ"):
    return at_slots(kc, k, slots, cache_mode), at_slots(vc, v, slots, cache_mode)


GATHERED = {"one sequence": ((*GATHER[:2], GATHER[2][:1], ints(6), torch.zeros(6, 2, 16), torch.zeros(6, 2, 8)), {}),
            "from the second block": ((*GATHER[:3], ints(2, 3), torch.zeros(5, 2, 16), torch.zeros(5, 2, 8)), {"seq_offset": ints(3, 0)}),
            "ends of three": ((*GATHER[:2], ints(0, 1, 2, 3, 3, 0).view(3, 2), ints(0, 2, 2, 6), torch.zeros(6, 2, 16), torch.zeros(6, 2,
                8)),
                              {"is_seq_lens_cumsum": True})}
CACHE = [
    *[Case(f"scatter_update{end}", args, updated, label=label) for end in ("", "_") for label, args in SEQUENCES.items()],
    *[Case(f"npu_scatter_nd_update{end}", args, lambda x, i, u: x.index_put(tuple(i.long().unbind(-1)), u), label=label)
      for end in ("", "_") for label, args in PLACES.items()],
    *[Case("npu_scatter_list", args, listed, label=label) for label, args in LISTS.items()],
    *[Case("npu_scatter_list_", args, listed, label=label, written=(0,)) for label, args in LISTS.items()],
    *[Case("npu_scatter_pa_cache.value", (tokens, slots), lambda t, s, key_cache: at_slots(key_cache, t, s),
           {"key_cache": rand(*shape_for(tokens, "Norm"))}, label=label) for label, (tokens, slots) in ROWS.items()],
    *[Case(op, (tokens, tokens + 1, rand(*shape_for(tokens, mode)), rand(*shape_for(tokens, mode), seed=1), slots), both,
           {"cache_mode": mode}, label=f"{label}, {mode}", written=written)
      for op, written in (("npu_scatter_pa_kv_cache", (2, 3)), ("npu_scatter_pa_kv_cache_functional", ()))
      for (label, (tokens, slots)), mode in zip(ROWS.items(), ("Norm", "PA_NZ", "Norm"))],
    *[Case(op, args, pages, options, label=label, written=written)
      for op, written in (("npu_gather_pa_kv_cache", (4, 5)), ("npu_gather_pa_kv_cache_functional", ()))
      for label, (args, options) in GATHERED.items()],
]

FLAT = torch.tensor([1, 0, 11, 4, -1, -1, 3, 6])
WIDE = (rand(2, 1, 4, 32), GAMMA, rand(2, 1, 4, 16, seed=1), rand(2, 1, 4, 16, seed=2))
FORMS = {  # inputs, slots, shape of the caches, sizes of a row, type, options
    "epsilon": ((KV, GAMMA, COS, SIN), FLAT, (4, 3, 1), (4, 16), torch.float32, {"cache_mode": "PA_BNSD", "epsilon": 1e-2,
        "is_output_kv": True}),
    "wide pages in sixteens": (WIDE, FLAT, (4, 3, 1), (16, 16), torch.float32, {"cache_mode": "PA_NZ", "is_output_kv": True}),
    "blocks in sixteens": (WIDE, torch.tensor([0, 9, 6, -1]), (4, 3, 1), (16, 16), torch.float32, {"cache_mode": "PA_BLK_NZ",
                                                                                                    "is_output_kv": True}),
}


def ordered(op):
    def reference(*a, **kwargs):
        t = normed(*a, **kwargs)
        return t if op == "npu_kv_rmsnorm_rope_cache" else t[2:] if op == "npu_kv_rmsnorm_rope_cache_v2" else (*t[2:], *t[:2])

    return reference


ONE_TOKEN, THREE_TWO = weights(1), weights(3, 2)
SIX = torch.tensor([5, 0, 11, 2, 7, 8])
PROLOG = {"one token": (ONE_TOKEN, torch.tensor([7]), {}), "three sequences": (THREE_TWO, SIX.view(3, 2), {"rmsnorm_epsilon_cq": 1e-1}),
          "no slot": (weights(4), torch.tensor([-1, 3, -1, 0]), {"rmsnorm_epsilon_ckv": 1e-1})}
ATTENTION = [
    *[Case(op, (*inputs, slots, torch.zeros(*shape, k, dtype=kind), torch.zeros(*shape, c, dtype=kind)), ordered(op), options, label=label)
      for op in ("npu_kv_rmsnorm_rope_cache", "npu_kv_rmsnorm_rope_cache_v2", "npu_kv_rmsnorm_rope_cache_v2_functional")
      for label, (inputs, slots, shape, (k, c), kind, options) in FORMS.items()],
    *[Case("npu_mla_prolog", (*w, slots, *CACHES), first, options, label=label) for label, (w, slots, options) in PROLOG.items()],
    *[Case("npu_mla_prolog_v2", (*w, slots, *CACHES), second, options, label=label) for label, (w, slots, options) in PROLOG.items()],
    *[Case("npu_mla_prolog_v3", (*w, *CACHES), lambda *a, **k: third(*a, **k)[:5], {"cache_index": slots, **options}, label=label)
      for label, (w, slots, options) in PROLOG.items()],
    *[Case("npu_mla_prolog_v3_functional", (*w, *CACHES), third, {"cache_index": slots, **options}, label=label)
      for label, (w, slots, options) in PROLOG.items()],
    Case("npu_mla_prolog_v3", (*weights(2, 3), torch.zeros(2, 3, 1, LATENT), torch.zeros(2, 3, 1, TURNED)),
         lambda *a, **k: third(*a, **k)[:5], {"cache_mode": "BSND", "query_norm_flag": True}, label="no pages"),
    Case("npu_mla_prolog_v3", (*weights(4), *CACHES), lambda *a, **k: third(*a, **k)[5:],
         {"cache_index": SIX[:4], "kc_scale": 2.0, "rmsnorm_epsilon_ckv": 1e-1}, label="caches, scaled", written=(9, 10)),
    Case("npu_kv_rmsnorm_rope_cache_v2", (KV, GAMMA, COS, SIN, FLAT, torch.zeros(4, 3, 1, 4).char(), torch.zeros(4, 3, 1, 16).char()),
         lambda *a, **k: normed(*a, **k)[:2], {"cache_mode": "PA", "k_rope_scale": torch.full((4,), 20.0),
                                               "c_kv_scale": torch.full((16,), 30.0)}, label="caches of int8", written=(5, 6)),
    *[Case("npu_qkv_rms_norm_rope_cache", (*QKV[:5], slots, *QKV[6:]), lambda *a, **k: joined(*a, **k)[3:], {**options,
        "is_output_qkv": False},
           label=label, written=(6, 7, 8))
      for label, slots, options in (("nothing returned", QKV[5], {}), ("no slot", torch.full((4,), -1), {"epsilon": 1e-2}))],
    Case("npu_qkv_rms_norm_rope_cache", (*QKV[:7], QKV[7].char(), QKV[8].char(), *QKV[9:]), lambda *a, **k: joined(*a, **k)[3:],
         {"k_scale": torch.full((1, 16), 0.1), "v_scale": torch.full((2, 16), 0.2), "k_offset": torch.full((1, 16), -2.0),
          "v_offset": torch.full((2, 16), 3.0), "cache_mode": "PA_NZ"}, label="int8 with offsets", written=(6, 7, 8)),
    Case("npu_qkv_rms_norm_rope_cache_functional", (*QKV[:7], QKV[7].char(), QKV[8].char(), *QKV[9:]), joined,
         {"is_output_qkv": True, "k_scale": torch.full((1, 16), 0.1), "v_scale": torch.full((2, 16), 0.2),
          "k_offset": torch.full((1, 16), -2.0), "cache_mode": "PA_NZ"}, label="int8 with an offset of keys"),
    Case("npu_qkv_rms_norm_rope_cache_functional", (*QKV[:5], torch.full((4,), -1), *QKV[6:]), joined, {"is_output_qkv": True},
         label="no slot"),
    Case("npu_qkv_rms_norm_rope_cache_functional", (*QKV[:7], QKV[7], QKV[8].char(), *QKV[9:]), joined,
         {"is_output_qkv": True, "v_scale": torch.full((2, 16), 0.05)}, label="values of int8"),
]
CASES = [*CACHE, *ATTENTION]
