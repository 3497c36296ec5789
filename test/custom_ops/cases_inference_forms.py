"""Attention for inference: quantised keys and values, and the other operators of the family."""

import torch
from cases import rand
from cases_inference import (
    ENDS,
    FIA,
    HEADS,
    KV_LENGTHS,
    MASK,
    PAGED,
    PAGES,
    PAGES_V,
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
    together,
)


def quantised(mode, scale, offset=None):
    """Keys or values of one sequence, [heads, length, size], as numbers: what each mode means."""

    def factor(x, t, b):
        return {
            0: lambda: x.reshape(M, 1, D) if x.numel() > 1 else x,
            1: lambda: x.reshape(-1, x.shape[-1])[b, None, : t.shape[1], None],
            2: lambda: x[:, None, None],
            3: lambda: x[b, :, : t.shape[1], None],
            4: lambda: torch.cat([x[i] for i in TABLE[b] if i >= 0])[None, : t.shape[1], None],
            5: lambda: torch.cat([x[i] for i in TABLE[b] if i >= 0], 1)[:, : t.shape[1], None],
        }[mode]()

    return lambda t, b: (t + (0 if offset is None else factor(offset.float(), t, b))) * factor(scale.float(), t, b)


def whole(*shape, seed=0):
    return torch.randint(-20, 20, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int8)


K8, V8, P8, PV8 = whole(3, M, 7, D), whole(3, M, 7, D, seed=1), whole(4, 4, M * D), whole(4, 4, M * D, seed=1)
TOKEN = rand(3, N, 1, D)
SCALES = {0: (M, D), 1: (3, 7), 2: (M,), 3: (3, M, 7), 4: (4, 4), 5: (4, M, 4)}


def anti(mode, shape):
    k, v, o, p = (rand(*shape, seed=s) / 10 for s in (1, 2, 3, 4))
    pages = mode in (4, 5)
    caches = (P8, PV8) if pages else (K8, V8)
    kwargs = {
        **(PAGED if pages else HEADS),
        "input_layout": "BNSD",
        "key_antiquant_scale": k,
        "value_antiquant_scale": v,
        "key_antiquant_mode": mode,
        "value_antiquant_mode": mode,
        "key_antiquant_offset": o,
        "value_antiquant_offset": p,
    }
    return by(
        FIA,
        (TOKEN, *caches),
        f"quantised {mode}",
        lambda *a, key_antiquant_scale, value_antiquant_scale, key_antiquant_offset, value_antiquant_offset, **w: fused(
            *a,
            antiquant=(
                quantised(mode, key_antiquant_scale, key_antiquant_offset),
                quantised(mode, value_antiquant_scale, value_antiquant_offset),
            ),
            **w,
        ),
        **kwargs,
    )


def both(*a, antiquant_scale, antiquant_offset=None, antiquant_mode=0, **kwargs):
    o = (None, None) if antiquant_offset is None else antiquant_offset
    return fused(*a, antiquant=[quantised(antiquant_mode, s, p) for s, p in zip(antiquant_scale, o)], **kwargs)


QUANTISED = [
    *[anti(mode, shape) for mode, shape in SCALES.items()],
    by(
        FIA,
        (TOKEN, K8, V8),
        "quantised together",
        both,
        input_layout="BNSD",
        antiquant_scale=rand(2, M, 1, D) / 10,
        antiquant_offset=rand(2, M, 1, D),
        **HEADS,
    ),
    by(FIA, (TOKEN, K8, V8), "quantised by one number", both, input_layout="BNSD", antiquant_scale=rand(2) / 10, **HEADS),
    by(
        FIA, (TOKEN, K8, V8), "quantised by token", both, input_layout="BNSD", antiquant_scale=rand(2, 3, 7) / 10, antiquant_mode=1, **HEADS
    ),
    by(FIA, (Q, K, V), "into int8", input_layout="BNSD", quant_scale2=torch.tensor([40.0]), quant_offset2=torch.tensor([3.0]), **HEADS),
]


def second(
    query,
    key,
    value,
    *,
    actual_seq_qlen=None,
    actual_seq_kvlen=None,
    num_query_heads=1,
    softmax_scale=1.0,
    return_softmax_lse=False,
    learnable_sink=None,
    dequant_scale_key=None,
    dequant_scale_value=None,
    key_quant_mode=0,
    value_quant_mode=0,
    workspace=None,
    out=None,
    **kwargs,
):
    antiquant = (
        (None, None)
        if dequant_scale_key is None
        else (quantised(key_quant_mode, dequant_scale_key), quantised(value_quant_mode, dequant_scale_value))
    )
    return fused(
        query,
        key,
        value,
        actual_seq_lengths=actual_seq_qlen,
        actual_seq_lengths_kv=actual_seq_kvlen,
        num_heads=num_query_heads,
        scale=softmax_scale,
        softmax_lse_flag=return_softmax_lse,
        sink=learnable_sink,
        antiquant=antiquant,
        **kwargs,
    )


V2 = FIA + "_v2"
HEADS2 = {"num_query_heads": N, "num_key_value_heads": M, "softmax_scale": 0.3}
OTHER = [
    by(V2, (Q, K, V), "", second, input_layout="BNSD", atten_mask=TRIANGLE, sparse_mode=3, return_softmax_lse=True, **HEADS2),
    by(
        V2,
        (ROWS, PAGES, PAGES_V),
        "rows in pages",
        second,
        input_layout="TND",
        actual_seq_qlen=ENDS,
        actual_seq_kvlen=KV_LENGTHS,
        block_table=TABLE,
        block_size=4,
        atten_mask=TRIANGLE,
        sparse_mode=3,
        learnable_sink=rand(N),
        return_softmax_lse=True,
        **HEADS2,
    ),
    by(
        V2,
        (TOKEN, K8, V8),
        "quantised",
        second,
        input_layout="BNSD",
        dequant_scale_key=rand(3, 7),
        dequant_scale_value=rand(3, 7, seed=1),
        key_quant_mode=1,
        value_quant_mode=1,
        **HEADS2,
    ),
    by(
        FIA + ".out",
        (Q, K, V),
        "",
        lambda *a, out, **kwargs: fused(*a, **kwargs),
        input_layout="BNSD",
        softmax_lse_flag=True,
        out=[torch.zeros(B, N, S, D), torch.zeros(B, N, S, 1)],
        **HEADS,
    ),
    by(V2 + ".out", (Q, K, V), "", second, input_layout="BNSD", out=[torch.zeros(B, N, S, D), torch.zeros(0)], **HEADS2),
    by(
        f"_{FIA}_infer_output",
        (Q, V),
        "",
        lambda *_, **__: (),
        input_layout="BNSD_BSND",
        softmax_lse_flag=True,
        num_heads=N,
        num_key_value_heads=M,
    ),
    by(
        f"_{V2}_infer_output",
        (Q, V),
        "",
        lambda *_, **__: (),
        input_layout="BNSD",
        return_softmax_lse=True,
        num_query_heads=N,
        num_key_value_heads=M,
    ),
    by(f"_{FIA}_get_max_workspace", (Q, K, V), "", lambda *_, **__: torch.empty(0, dtype=torch.uint8), input_layout="BNSD", **HEADS),
    by(f"_{V2}_get_max_workspace", (Q, K, V), "", lambda *_, **__: torch.empty(0, dtype=torch.uint8), input_layout="BNSD", **HEADS2),
    by(
        "npu_prompt_flash_attention",
        (Q, K, V),
        "",
        lambda *a, scale_value, **kwargs: fused(*a, scale=scale_value, next_tokens=0, **kwargs)[0],
        input_layout="BNSD",
        num_heads=N,
        num_key_value_heads=M,
        scale_value=0.3,
        atten_mask=MASK,
        actual_seq_lengths=[3, 5],
        actual_seq_lengths_kv=[7, 2],
    ),
    by(
        "npu_prompt_flash_attention",
        (Q, K, V),
        "turned",
        lambda *a, scale_value, **kwargs: fused(*a, scale=scale_value, **kwargs)[0],
        input_layout="BNSD_BSND",
        num_heads=N,
        num_key_value_heads=M,
        scale_value=0.3,
        pse_shift=rand(B, N, S, 7),
    ),
    *[
        by(
            "npu_incre_flash_attention",
            (together(TOKEN, "BSH").contiguous(), *caches),
            label,
            lambda *a, scale_value, actual_seq_lengths, **kwargs: fused(
                *a, scale=scale_value, actual_seq_lengths_kv=actual_seq_lengths, **kwargs
            )[0],
            num_heads=N,
            num_key_value_heads=M,
            scale_value=0.3,
            actual_seq_lengths=KV_LENGTHS,
            **options,
        )
        for label, caches, options in (
            ("", (rand(3, 7, M * D), rand(3, 7, M * D, seed=1)), {}),
            ("pages", (PAGES, PAGES_V), {"block_table": TABLE, "block_size": 4}),
        )
    ],
]
CASES = [*QUANTISED, *OTHER]

# Cases that the official wheel refuses, or answers otherwise: see test/official/custom_ops.py.
NOT_OFFICIAL = dict.fromkeys(
    ("_npu_fused_infer_attention_score_get_max_workspace", "_npu_fused_infer_attention_score_v2_get_max_workspace"),
    "it returns as much memory as aclnnFusedInferAttentionScoreV3GetMaxWorkspaceSize says, which a launch allocates itself here")
