"""Options of attention for inference at other values than by default: padding on the left, offsets of quantised caches, results of 8 bits,
rotary parts, biases, bands, given results and workspaces."""

import torch
from cases import rand
from cases_attention_v3 import no_bytes, nothing
from cases_inference import (
    ENDS,
    FIA,
    HEADS,
    KV_ENDS,
    KV_LENGTHS,
    MASK,
    PAGED,
    PAGES,
    PAGES_V,
    ROW_K,
    ROW_V,
    ROWS,
    TABLE,
    TRIANGLE,
    B,
    D,
    K,
    M,
    N,
    Q,
    S,
    V,
    by,
    fused,
)
from cases_inference_forms import HEADS2, K8, TOKEN, V2, V8, both, quantised, second

BIAS = rand(B, N, S, 7, seed=8)
BNSD, SPACE = {"input_layout": "BNSD"}, torch.zeros(4096, dtype=torch.uint8)
PREFIX = {"key_shared_prefix": rand(1, M, 3, D, seed=6), "value_shared_prefix": rand(1, M, 3, D, seed=7)}
TO_INT8 = {"scale": torch.tensor([40.0]), "offset": torch.tensor([-3.0])}
BAND = {"sparse_mode": 4, "pre_tokens": 2, "next_tokens": 1, "atten_mask": TRIANGLE}
ROPES = {"query_rope": rand(B, N, S, 4), "key_rope": rand(B, M, 7, 4, seed=3)}
ROW_ROPES = {"query_rope": rand(5, N, 4), "key_rope": rand(9, M, 4, seed=3)}


def to_the_left(t, lengths, padding):
    """[batch, heads, rows, size] whose rows end `padding` rows before the last, as rows that begin with the first."""
    return torch.stack([x.roll(length + padding - x.shape[1], 1) for x, length in zip(t, lengths)])


def padded(q, k, v, *, actual_seq_lengths, actual_seq_lengths_kv, query_padding_size=None, kv_padding_size=None, **kwargs):
    rows = [(t, n, None if p is None else int(p)) for t, n, p in ((q, actual_seq_lengths, query_padding_size),
                                                                  *((t, actual_seq_lengths_kv, kv_padding_size) for t in (k, v)))]
    q, k, v = (t if p is None else to_the_left(t, n, p) for t, n, p in rows)
    out = fused(q, k, v, actual_seq_lengths=actual_seq_lengths, actual_seq_lengths_kv=actual_seq_lengths_kv, **kwargs)[0]
    if query_padding_size is None:
        return out
    return torch.stack([x.roll(x.shape[1] - n - int(query_padding_size), 1) for x, n in zip(out, actual_seq_lengths)])


def apart(*a, key_antiquant_scale, value_antiquant_scale, key_antiquant_mode, value_antiquant_mode, **kwargs):
    """Keys and values, quantised each in its own mode."""
    ways = quantised(key_antiquant_mode, key_antiquant_scale), quantised(value_antiquant_mode, value_antiquant_scale)
    return fused(*a, antiquant=ways, **kwargs)


def given(reference):
    return lambda *a, out, workspace=None, **kwargs: reference(*a, **kwargs)


def room(*shape, sums=0, dtype=torch.float32):
    return [torch.zeros(shape, dtype=dtype), torch.zeros(sums)]


FIRST = [
    by(FIA, (Q, K, V), "keys padded on the left", padded, actual_seq_lengths=[5, 5], actual_seq_lengths_kv=[4, 6],
       kv_padding_size=torch.tensor([1]), **BNSD, **HEADS),
    by(FIA, (Q, K, V), "padded on the left", padded, actual_seq_lengths=[3, 2], actual_seq_lengths_kv=[4, 6],
       query_padding_size=torch.tensor([1]), kv_padding_size=torch.tensor([0]), inner_precise=1, **BNSD, **HEADS),
    by(FIA, (TOKEN, K8, V8), "keys by channel, values by token", apart, key_antiquant_scale=rand(M, D) / 10, key_antiquant_mode=0,
       value_antiquant_scale=rand(3, 7) / 10, value_antiquant_mode=1, **BNSD, **HEADS),
    by(f"{FIA}.out", (Q, K, V), "bias, lengths", given(fused), pse_shift=BIAS, actual_seq_lengths=[3, 5], actual_seq_lengths_kv=[7, 2],
       softmax_lse_flag=True, workspace=SPACE, out=[torch.zeros(B, N, S, D), torch.zeros(B, N, S, 1)], **BNSD, **HEADS),
    by(f"{FIA}.out", (ROWS, ROW_K, ROW_V), "rows, rotary parts", given(fused), input_layout="TND", actual_seq_lengths=ENDS,
       actual_seq_lengths_kv=KV_ENDS, out=room(5, N, D), **ROW_ROPES, **HEADS),
    by(f"{FIA}.out", (rand(3, N, 1, D), PAGES, PAGES_V), "pages", given(fused), out=room(3, N, 1, D), **BNSD, **PAGED),
    by(f"{FIA}.out", (Q, K, V), "band, into int8", given(fused), quant_scale2=TO_INT8["scale"], quant_offset2=TO_INT8["offset"],
       out=room(B, N, S, D, dtype=torch.int8), **BAND, **BNSD, **HEADS),
    by(f"{FIA}.out", (TOKEN, K8, V8), "quantised together", given(both), antiquant_scale=rand(2, M, 1, D) / 10,
       antiquant_offset=rand(2, M, 1, D), out=room(3, N, 1, D), **BNSD, **HEADS),
    by(f"{FIA}.out", (TOKEN, K8, V8), "quantised apart", given(apart), key_antiquant_scale=rand(3, 7) / 10, key_antiquant_mode=1,
       value_antiquant_scale=rand(M, D) / 10, value_antiquant_mode=0, out=room(3, N, 1, D), **BNSD, **HEADS),
    by(f"{FIA}.out", (Q, K, V), "shared prefix", given(fused), actual_shared_prefix_len=[2], actual_seq_lengths_kv=[4, 7],
       out=room(B, N, S, D), **PREFIX, **BNSD, **HEADS),
]


def second_version(*a, dequant_offset_key=None, dequant_offset_value=None, dequant_scale_key=None, dequant_scale_value=None,
                   key_quant_mode=0, value_quant_mode=0, quant_scale_out=None, quant_offset_out=None, actual_seq_qlen=None,
                   actual_seq_kvlen=None, num_query_heads=1, softmax_scale=1.0, return_softmax_lse=False, learnable_sink=None, out=None,
                   workspace=None, **kwargs):
    ways = (None, None)
    if dequant_scale_key is not None:
        ways = (quantised(key_quant_mode, dequant_scale_key, dequant_offset_key),
                quantised(value_quant_mode, dequant_scale_value, dequant_offset_value))
    return fused(*a, antiquant=ways, quant_scale2=quant_scale_out, quant_offset2=quant_offset_out, actual_seq_lengths=actual_seq_qlen,
                 actual_seq_lengths_kv=actual_seq_kvlen, num_heads=num_query_heads, scale=softmax_scale, sink=learnable_sink,
                 softmax_lse_flag=return_softmax_lse, **kwargs)


FORMS = {  # label: (inputs, options, shape of the result, its type)
    "bias, mask, lengths": ((Q, K, V), {**BNSD, "pse_shift": BIAS, "atten_mask": MASK, "actual_seq_qlen": [3, 5],
                                        "actual_seq_kvlen": [7, 2], "inner_precise": 1}, (B, N, S, D), torch.float32),
    "band, sink": ((Q, K, V), {**BNSD, **BAND, "learnable_sink": rand(N)}, (B, N, S, D), torch.float32),
    "rotary parts in rows": ((ROWS, ROW_K, ROW_V), {"input_layout": "TND", "actual_seq_qlen": ENDS, "actual_seq_kvlen": KV_ENDS,
        **ROW_ROPES},
                             (5, N, D), torch.float32),
    "into int8": ((Q, K, V), {**BNSD, "quant_scale_out": TO_INT8["scale"], "quant_offset_out": TO_INT8["offset"]}, (B, N, S, D),
        torch.int8),
    "offsets by channel": ((TOKEN, K8, V8), {**BNSD, "dequant_scale_key": rand(M, D) / 10, "dequant_offset_key": rand(M, D, seed=1),
                                             "dequant_scale_value": rand(M, D, seed=2) / 10, "dequant_offset_value": rand(M, D, seed=3)},
                           (3, N, 1, D), torch.float32),
    "offsets by token": ((TOKEN, K8, V8), {**BNSD, "dequant_scale_key": rand(3, 7) / 10, "dequant_offset_key": rand(3, 7, seed=1) * 9,
                                           "dequant_scale_value": rand(3, 7, seed=2) / 10, "dequant_offset_value": rand(3, 7, seed=3),
                                           "key_quant_mode": 1, "value_quant_mode": 1}, (3, N, 1, D), torch.float32),
    "pages": ((TOKEN, PAGES, PAGES_V), {**BNSD, "block_table": TABLE, "block_size": 4, "actual_seq_kvlen": KV_LENGTHS}, (3, N, 1, D),
              torch.float32),
}
SECOND = [case for label, (inputs, options, shape, dtype) in FORMS.items() for case in (
    by(V2, inputs, label, second_version, **options, **HEADS2),
    by(f"{V2}.out", inputs, label, second_version, workspace=SPACE, out=room(*shape, dtype=dtype), **options, **HEADS2),
)]
QUANTISED = {f"quantised, modes {k} and {v}": (ks, k, vs, v) for k, ks, v, vs in ((0, (M, D), 1, (3, 7)), (1, (3, 7), 0, (M, D)))}
SECOND += [by(op, (TOKEN, K8, V8), label, second, dequant_scale_key=rand(*ks) / 10, key_quant_mode=k, dequant_scale_value=rand(*vs) / 10,
              value_quant_mode=v, **more, **BNSD, **HEADS2)
           for label, (ks, k, vs, v) in QUANTISED.items() for op, more in ((V2, {}), (f"{V2}.out", {"out": room(3, N, 1, D)}))]
SECOND.append(by(f"{V2}.out", (ROWS, PAGES, PAGES_V), "rows in pages", second, input_layout="TND", actual_seq_qlen=ENDS,
                 actual_seq_kvlen=KV_LENGTHS, block_table=TABLE, block_size=4, atten_mask=TRIANGLE, sparse_mode=3, return_softmax_lse=True,
                 out=[torch.zeros(5, N, D), torch.zeros(5, N, 1)], **HEADS2))

ONLY = {"num_heads": N, "num_key_value_heads": M}
ONLY2 = {"num_query_heads": N, "num_key_value_heads": M}
ASKED = {  # label: (query, value, options)
    "into int8": (Q, V, {**BNSD, "quant": TO_INT8["scale"]}),
    "pages": (TOKEN, PAGES_V, {**BNSD, "block_table": TABLE}),
    "rows with sums": (ROWS, ROW_V, {"input_layout": "TND", "sums": True}),
    "rotary parts": (ROWS, ROW_V[..., :6], {"input_layout": "TND", "query_rope": ROW_ROPES["query_rope"]}),
}
ASKING = [case for label, (q, v, options) in ASKED.items() for case in (
    by(f"_{FIA}_infer_output", (q, v), label, nothing, **{{"quant": "quant_scale2", "sums": "softmax_lse_flag"}.get(k, k): o
                                                          for k, o in options.items()}, **ONLY),
    by(f"_{V2}_infer_output", (q, v), label, nothing, **{{"quant": "quant_scale_out", "sums": "return_softmax_lse"}.get(k, k): o
                                                         for k, o in options.items()}, **ONLY2),
)]
ASKING += [case for label, a, b in (
    ("pages", {**PAGED}, {"block_table": TABLE, "block_size": 4, "actual_seq_kvlen": KV_LENGTHS}),
    ("mask and bias", {"atten_mask": MASK, "pse_shift": BIAS, "sparse_mode": 1, **HEADS},
     {"atten_mask": MASK, "pse_shift": BIAS, "sparse_mode": 1}),
    ("lengths", {"actual_seq_lengths": [3, 5], "actual_seq_lengths_kv": [7, 2], **HEADS},
     {"actual_seq_qlen": [3, 5], "actual_seq_kvlen": [7, 2]})) for case in (
    by(f"_{FIA}_get_max_workspace", (TOKEN, PAGES, PAGES_V) if label == "pages" else (Q, K, V), label, no_bytes, **BNSD, **a),
    by(f"_{V2}_get_max_workspace", (TOKEN, PAGES, PAGES_V) if label == "pages" else (Q, K, V), label, no_bytes, **BNSD, **b, **HEADS2),
)]


def prompt(*a, scale_value, next_tokens=0, **kwargs):
    return fused(*a, scale=scale_value, next_tokens=next_tokens, **kwargs)[0]


def step(*a, scale_value, actual_seq_lengths=None, atten_mask=None, kv_padding_size=None, antiquant_scale=None, antiquant_offset=None,
         **kwargs):
    call = fused if antiquant_scale is None else both
    more = {} if antiquant_scale is None else {"antiquant_scale": antiquant_scale, "antiquant_offset": antiquant_offset}
    if kv_padding_size is not None:
        a = (a[0], *(to_the_left(t, actual_seq_lengths, int(kv_padding_size)) for t in a[1:]))
    return call(*a, scale=scale_value, actual_seq_lengths_kv=actual_seq_lengths, atten_mask=atten_mask, **more, **kwargs)[0]


STEP_KV = (rand(3, M, 7, D), rand(3, M, 7, D, seed=1))
UNSEEN = torch.rand(3, 7, generator=torch.Generator().manual_seed(3)) > 0.6
OLDER = [
    by("npu_prompt_flash_attention", (Q, K, V), "band", prompt, scale_value=0.3, **BAND, **BNSD, **ONLY),
    by("npu_prompt_flash_attention", (Q, K, V), "mask in a band", prompt, scale_value=0.3, atten_mask=MASK, pre_tokens=2, next_tokens=3,
       **BNSD, **ONLY),
    by("npu_prompt_flash_attention", (Q, K, V), "into int8", prompt, scale_value=0.3, quant_scale2=TO_INT8["scale"],
       quant_offset2=TO_INT8["offset"], sparse_mode=2, atten_mask=TRIANGLE, **BNSD, **ONLY),
    by("npu_incre_flash_attention", (TOKEN, *STEP_KV), "mask", step, scale_value=0.3, atten_mask=UNSEEN, **BNSD, **ONLY),
    by("npu_incre_flash_attention", (TOKEN, *STEP_KV), "bias", step, scale_value=0.3, pse_shift=rand(3, N, 1, 7), inner_precise=0, **BNSD,
       **ONLY),
    by("npu_incre_flash_attention", (TOKEN, K8, V8), "quantised", step, scale_value=0.3, antiquant_scale=rand(2, M, 1, D) / 10,
       antiquant_offset=rand(2, M, 1, D), **BNSD, **ONLY),
    by("npu_incre_flash_attention", (TOKEN, *STEP_KV), "into int8, padded on the left", step, scale_value=0.3,
       actual_seq_lengths=[3, 5, 6], kv_padding_size=torch.tensor([1]), quant_scale2=TO_INT8["scale"], quant_offset2=TO_INT8["offset"],
       **BNSD, **ONLY),
]
CASES = [*FIRST, *SECOND, *ASKING, *OLDER]
# Why the official client cannot be asked, or does not agree.
NOT_OFFICIAL = {str(case): "it returns the memory that a launch allocates itself here" for case in CASES
    if case.op.endswith("_get_max_workspace")}
