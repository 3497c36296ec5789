"""Cases of the third version of fused attention with given results, and of what a graph asks of it before."""

import torch
from cases import Case, rand
from cases_attention import BNSD, BSH, BSND, ENDS, PSE, ROWS, SCALE, SINK, attend, causal, fused, gradient, join, split

DY = rand(2, 4, 4, 8, seed=2)


def given(q, k, v, heads, layout, pse=None, *, out, scale, sparse_mode=0, sink=None):
    parts = [split(t, layout, 8) for t in (q, k, v)]
    hidden = causal(parts[0].shape[2], parts[1].shape[2]) if sparse_mode == 3 else None
    result, top, total = attend(*parts, scale, hidden, pse, sink)
    return join(result, layout), top.expand(*top.shape[:-1], 8), total.expand(*total.shape[:-1], 8)


def attended(*args, **kwargs):
    """Without maxima and sums: other ones than these serve the gradient as well."""
    return given(*args, **kwargs)[0]


def given_gradient(*args, out, **kwargs):
    return gradient(*args, **kwargs)


def results(layout, heads=4, rows=4):
    """attention, maxima, sums, nothing, seed and offset."""
    size = {"BNSD": (2, 4, 4, 8), "BSND": (2, 4, 4, 8), "BSH": (2, 4, 32)}[layout]
    return [
        torch.zeros(size),
        torch.zeros(2, heads, rows, 8),
        torch.zeros(2, heads, rows, 8),
        torch.zeros(0),
        torch.zeros(1).long(),
        torch.zeros(1).long(),
    ]


def gradients(parts, *more):
    return [*(torch.zeros_like(t) for t in parts), *more]


def in_rows(*args, actual_seq_qlen, actual_seq_kvlen, scale, sparse_mode, **_):
    ends = {"actual_seq_qlen": actual_seq_qlen.tolist(), "actual_seq_kvlen": actual_seq_kvlen.tolist()}
    return fused(*args, scale=scale, sparse_mode=sparse_mode, **ends)


def in_rows_gradient(*args, out, workspace, actual_seq_qlen, actual_seq_kvlen, **kwargs):
    ends = {"actual_seq_qlen": actual_seq_qlen.tolist(), "actual_seq_kvlen": actual_seq_kvlen.tolist()}
    return gradient(*args, **ends, **kwargs)[:3]


def nothing(*_, **__):
    return ()


def no_bytes(*_, **__):
    return torch.empty(0, dtype=torch.uint8)


TENSORS = {name: torch.tensor(ends) for name, ends in ENDS.items()}
ROW_RESULTS = [*(torch.zeros(8, 4, 8) for _ in range(3)), torch.zeros(0), torch.zeros(1).long(), torch.zeros(1).long()]
SPACE = {"workspace": torch.zeros(4096, dtype=torch.uint8)}
DY_ROWS = rand(8, 4, 8, seed=2)
CASES = [
    *(Case("npu_fusion_attention_v3.out", (*ROWS, 4, "TND"), in_rows,
           {**SCALE, **TENSORS, **SPACE, "sparse_mode": mode, "out": ROW_RESULTS}, label=f"rows, mode {mode}") for mode in (0, 3)),
    *(Case("npu_fusion_attention_grad_v3.out", (*ROWS, DY_ROWS, 4, "TND"), in_rows_gradient,
           {"scale_value": 0.3, **TENSORS, **SPACE, "sparse_mode": mode,
            "out": gradients(ROWS, torch.zeros(0), torch.zeros(0))}, label=f"rows, mode {mode}") for mode in (0, 3)),
    *(Case("npu_fusion_attention_v3", (*ROWS, 4, "TND"), in_rows, {**SCALE, **TENSORS, "sparse_mode": mode}, grad=(0, 1, 2),
           label=f"rows, mode {mode}") for mode in (0, 3)),
    Case("_npu_fusion_attention_v3_get_max_workspace", (*ROWS, 4, "TND"), nothing, {**SCALE, **TENSORS}, label="rows"),
    Case("_npu_fusion_attention_grad_v3_get_max_workspace", (*ROWS, DY_ROWS, 4, "TND"), nothing,
         {"scale_value": 0.3, **TENSORS}, label="rows"),
    Case("npu_fusion_attention_v3.out", (*BNSD, 4, "BNSD"), attended, {**SCALE, "out": results("BNSD")}),
    Case("npu_fusion_attention_v3.out", (*BSH, 4, "BSH", PSE), given, {**SCALE, "sink": SINK, "out": results("BSH")}, label="bias"),
    Case("npu_fusion_attention_v3.out", (*BSND, 4, "BSND"), given, {**SCALE, "sparse_mode": 3, "out": results("BSND")}, label="causal"),
    Case(
        "npu_fusion_attention_grad_v3.out",
        (*BNSD, DY, 4, "BNSD"),
        given_gradient,
        {"scale_value": 0.3, "out": gradients(BNSD, torch.zeros(0), torch.zeros(0))},
    ),
    Case(
        "npu_fusion_attention_grad_v3.out",
        (*BSND, DY, 4, "BSND"),
        given_gradient,
        {"scale_value": 0.3, "pse": PSE, "sink": SINK, "out": gradients(BSND, torch.zeros_like(PSE), torch.zeros_like(SINK))},
        label="bias and sink",
    ),
    Case("_npu_fusion_attention_v3_infer_output", (*BNSD, 4, "BNSD"), nothing),
    Case("_npu_fusion_attention_v3_infer_output", (*BSH, 4, "BSH"), nothing, label="BSH"),
    Case("_npu_fusion_attention_grad_v3_infer_output", (*BNSD, PSE, SINK), nothing),
    Case("_npu_fusion_attention_v3_get_max_workspace", (*BNSD, 4, "BNSD"), no_bytes),
    Case("_npu_fusion_attention_grad_v3_get_max_workspace", (*BNSD, DY, 4, "BNSD"), no_bytes),
]
# Cases that the official wheel refuses: see test/official/custom_ops.py.
NOT_OFFICIAL = {str(case): "it takes the layout TND only" for case in CASES
                if case.op.endswith((".out", "_get_max_workspace")) and not case.label.startswith("rows")}
