"""Further forms of attention, its gradients and caches: one row, one head, other layouts, other types of places."""

import torch
from cases import Case, rand, updated
from cases_attention import BNSD, BSH, BSND, PSE, SBH, SINK, WHOLE, attend, fused, gradient, gradient_v2
from cases_attention_v3 import DY, given_gradient, gradients, no_bytes, nothing
from cases_cache import (
    CACHES,
    GATHER,
    LIST,
    NORM,
    PLACES_OF,
    QKV,
    SLOTS,
    TOKENS,
    VALUES,
    at_slots,
    joined,
    listed,
    pages,
    second,
    third,
    weights,
)
from cases_inference import FIA, HEADS, TRIANGLE, B, D, K, M, N, Q, S, V, by, fused as inferred, together
from cases_inference_forms import HEADS2, TOKEN, V2, second as inferred_v2

SIZE = {"scale_value": 0.3}
CHANGED = {"scale": 0.7, "sparse_mode": 3}
ONE_HEAD = (rand(2, 1, 5, 8), rand(2, 1, 3, 8), rand(2, 1, 3, 8, seed=1))


def part(begin, end):
    out, top, total = attend(rand(1, 2, 4, 8), rand(1, 2, 6, 8)[:, :, begin:end], rand(1, 2, 6, 8, seed=1)[:, :, begin:end])
    return (top + total.log()).flatten(), out.flatten(0, 2)


THREE = [part(0, 1), part(1, 4), part(4, 6)]
TRAINING = [
    Case("npu_fusion_attention_grad_v2", (*BNSD, DY, 4, "BNSD"), gradient_v2, {**SIZE, "pse": PSE, "pse_type": 1}, label="bias before"),
    Case("npu_fusion_attention_grad_v2", (*BSND, DY, 4, "BSND"), gradient_v2, {**SIZE, "pse": PSE, "pse_type": 0}, label="BSND"),
    Case("npu_fusion_attention_v3", (*SBH, 4, "SBH"), fused, CHANGED, grad=(0, 1, 2), label="SBH"),
    Case("npu_fusion_attention_v3", (*ONE_HEAD, 1, "BNSD"), fused, {"scale": 0.3}, grad=(0, 1, 2), label="one head"),
    Case("npu_fusion_attention_grad_v3", (*BNSD, DY, 4, "BNSD"), gradient, {**SIZE, "sparse_mode": 3}, label="causal"),
    Case("npu_fusion_attention_grad_v3", (*BSH, rand(2, 4, 32, seed=2), 4, "BSH"), gradient, SIZE, label="BSH"),
    Case("npu_fusion_attention_grad_v3.out", (*BSH, rand(2, 4, 32, seed=2), 4, "BSH"), given_gradient,
         {**SIZE, "sparse_mode": 3, "out": gradients(BSH, torch.zeros(0), torch.zeros(0))}, label="causal"),
    Case("_npu_fusion_attention_v3_infer_output", (*SBH, 4, "SBH"), nothing, label="SBH"),
    Case("_npu_fusion_attention_grad_v3_infer_output", BNSD, nothing, label="no bias"),
    Case("_npu_fusion_attention_grad_v3_infer_output", (*BSH, None, SINK), nothing, label="sink"),
    *[Case("_npu_fusion_attention_v3_get_max_workspace", (*parts, 4, layout), no_bytes, label=layout)
      for layout, parts in (("BSH", BSH), ("SBH", SBH))],
    *[Case("_npu_fusion_attention_grad_v3_get_max_workspace", (*parts, dy, 4, layout), no_bytes, label=layout)
      for layout, parts, dy in (("BSND", BSND, DY), ("BSH", BSH, rand(2, 4, 32)))],
    Case("npu_attention_update", ([lse for lse, _ in THREE], [out for _, out in THREE], 1),
         lambda *_: (WHOLE[0].flatten(0, 2), (WHOLE[1] + WHOLE[2].log()).flatten()), label="three parts"),
]


def given(reference):
    return lambda *a, out, **kwargs: reference(*a, **kwargs)


def of(layout, *tensors):
    return tuple(together(t, layout).contiguous() for t in tensors)


def prompt(*a, scale_value, **kwargs):
    return inferred(*a, scale=scale_value, **kwargs)[0]


def step(*a, scale_value, actual_seq_lengths=None, **kwargs):
    return inferred(*a, scale=scale_value, actual_seq_lengths_kv=actual_seq_lengths, **kwargs)[0]


ONLY = {"num_heads": N, "num_key_value_heads": M}
INFERENCE = [
    *[by(f"{FIA}.out", of(layout, Q, K, V), label, given(inferred), input_layout=layout, out=[torch.zeros(shape), torch.zeros(0)],
         **options, **HEADS)
      for label, layout, shape, options in (("BSH, causal", "BSH", (B, S, N * D), {"atten_mask": TRIANGLE, "sparse_mode": 3}),
                                            ("BSND", "BSND", (B, S, N, D), {}))],
    *[by(f"{V2}.out", of(layout, Q, K, V), label, inferred_v2, input_layout=layout, out=[torch.zeros(shape), torch.zeros(0)], **options,
         **HEADS2)
      for label, layout, shape, options in (("BSH, causal", "BSH", (B, S, N * D), {"atten_mask": TRIANGLE, "sparse_mode": 3}),
                                            ("BSND", "BSND", (B, S, N, D), {}))],
    *[by(f"_{name}_infer_output", of(layout, Q, V), layout, nothing, input_layout=layout, **heads)
      for name, heads in ((FIA, ONLY), (V2, {"num_query_heads": N, "num_key_value_heads": M})) for layout in ("BSH", "BSND")],
    *[by(f"_{name}_get_max_workspace", of(layout, Q, K, V), layout, no_bytes, input_layout=layout, **heads)
      for name, heads in ((FIA, HEADS), (V2, HEADS2)) for layout in ("BSH", "BSND")],
    by("npu_prompt_flash_attention", of("BSH", Q, K, V), "BSH", prompt, input_layout="BSH", scale_value=0.7, **ONLY),
    by("npu_prompt_flash_attention", (Q, K, V), "causal", prompt, input_layout="BNSD", scale_value=0.3, atten_mask=TRIANGLE, sparse_mode=3,
       **ONLY),
    by("npu_incre_flash_attention", (TOKEN, rand(3, M, 7, D), rand(3, M, 7, D, seed=1)), "BNSD", step, input_layout="BNSD",
       scale_value=0.7, **ONLY),
    by("npu_incre_flash_attention", of("BSND", TOKEN, rand(3, M, 7, D), rand(3, M, 7, D, seed=1)), "BSND", step, input_layout="BSND",
       scale_value=0.3, actual_seq_lengths=[1, 7, 4], **ONLY),
]

WHERE = torch.tensor([[0, 1], [2, 0], [2, 3]])
HERE = {"is_output_qkv": True}
CACHE = [
    *[Case(f"npu_mla_prolog_{version}", (*weights(*tokens), *rest), reference, options, label=label)
      for version, reference, tokens, rest, options, label in (
          ("v2", second, (4,), (PLACES_OF, *CACHES), {"rmsnorm_epsilon_cq": 1e-2, "rmsnorm_epsilon_ckv": 1e-3}, "epsilons"),
          ("v3", lambda *a, **k: third(*a, **k)[:5], (2, 2), CACHES, {"cache_index": PLACES_OF.view(2, 2), "qc_qr_scale": 0.5}, "batch"),
          ("v3", lambda *a, **k: third(*a, **k)[:5], (4,), CACHES, {"cache_index": PLACES_OF, "kc_scale": 2.0}, "scaled"),
          ("v3_functional", third, (4,), CACHES, {"cache_index": PLACES_OF, "query_norm_flag": True}, "norm"))],
    *[Case(f"scatter_update{end}", (cache, places, values, axis), updated, label=label)
      for end in ("", "_")
      for label, cache, places, values, axis in (("int32", rand(2, 3, 6, 4), torch.tensor([0, 2], dtype=torch.int32), rand(2, 3, 2, 4), -2),
                                                 ("one sequence", rand(1, 1, 9, 3), torch.tensor([7]), rand(1, 1, 2, 3), 2))],
    *[Case(f"npu_scatter_nd_update{end}", (rand(3, 4, 2), WHERE, rand(3, 2)), lambda x, i, u: x.index_put(tuple(i.unbind(-1)), u),
           label="pairs") for end in ("", "_")],
    Case("npu_scatter_nd_update", (rand(3, 4), torch.tensor([[2], [0]], dtype=torch.int32), rand(2, 4)),
         lambda x, i, u: x.index_copy(0, i[:, 0].long(), u), label="int32"),
    Case("npu_scatter_list", (LIST, torch.tensor([0, 3], dtype=torch.int32), rand(2, 3, 3, 4)), listed, label="int32"),
    Case("npu_scatter_list_", ([t.clone() for t in LIST], torch.tensor([1, 2]), rand(2, 3, 6, 1), torch.tensor([0, 1], dtype=torch.uint8),
                               "update", -1), lambda *_: None, label="mask"),
    Case("npu_scatter_list_", ([t.clone() for t in LIST], torch.tensor([0, 3], dtype=torch.int32), rand(2, 3, 3, 4)), lambda *_: None,
         label="int32"),
    *[Case("npu_scatter_pa_cache.value", (TOKENS[:n].contiguous(), SLOTS[:n].to(kind)), lambda t, s, key_cache: at_slots(key_cache, t, s),
           {"key_cache": torch.ones(NORM)}, label=label) for label, n, kind in (("int64", 4, torch.int64), ("one token", 1, torch.int32))],
    Case("npu_scatter_pa_kv_cache", (TOKENS, VALUES, torch.zeros(NORM), torch.zeros(NORM), SLOTS.long()), lambda *_, **__: None,
         {"cache_mode": "Norm"}, label="int64"),
    Case("npu_scatter_pa_kv_cache_functional", (TOKENS, VALUES, torch.ones(NORM), torch.ones(NORM), SLOTS.long()),
         lambda k, v, kc, vc, s, cache_mode: (at_slots(kc, k, s), at_slots(vc, v, s)), {"cache_mode": "Norm"}, label="int64"),
    *[Case("npu_gather_pa_kv_cache", (*GATHER[:3], lengths, *GATHER[4:]), lambda *_, **__: None, options, label=label)
      for label, lengths, options in (
          ("ends", torch.tensor([0, 3, 9], dtype=torch.int32), {"is_seq_lens_cumsum": True}),
          ("offset", GATHER[3], {"seq_offset": torch.tensor([3, 2], dtype=torch.int32)}))],
    Case("npu_gather_pa_kv_cache_functional", (*GATHER[:3], torch.tensor([9, 0], dtype=torch.int32), *GATHER[4:]), pages,
         label="one of them empty"),
    Case("npu_qkv_rms_norm_rope_cache", QKV, lambda *a, **k: joined(*a, **k)[:3], {**HERE, "epsilon": 1e-2}, label="epsilon"),
    Case("npu_qkv_rms_norm_rope_cache", (*QKV[:5], torch.tensor([0, 1, 2, 3]), *QKV[6:]), lambda *a, **k: joined(*a, **k)[:3], HERE,
         label="slots in a row"),
    Case("npu_qkv_rms_norm_rope_cache_functional", (*QKV[:5], torch.tensor([0, 1, 2, 3]), *QKV[6:]), joined, {**HERE, "epsilon": 1e-2},
         label="epsilon"),
]

CASES = [*TRAINING, *INFERENCE, *CACHE]
# Why the official client cannot be asked, or does not agree.
NOT_OFFICIAL = {
    "npu_fusion_attention_grad_v3.out-causal": "it takes rows (TND) only",
    "_npu_fusion_attention_v3_get_max_workspace-BSH": "it takes rows (TND) only",
    "_npu_fusion_attention_v3_get_max_workspace-SBH": "it takes rows (TND) only",
    "_npu_fusion_attention_grad_v3_get_max_workspace-BSH": "it takes rows (TND) only",
    "_npu_fusion_attention_grad_v3_get_max_workspace-BSND": "it takes rows (TND) only",
    "_npu_fused_infer_attention_score_get_max_workspace-BSH": "the workspace is asked for when the operator runs here",
    "_npu_fused_infer_attention_score_get_max_workspace-BSND": "the workspace is asked for when the operator runs here",
    "_npu_fused_infer_attention_score_v2_get_max_workspace-BSH": "the workspace is asked for when the operator runs here",
    "_npu_fused_infer_attention_score_v2_get_max_workspace-BSND": "the workspace is asked for when the operator runs here",
}
