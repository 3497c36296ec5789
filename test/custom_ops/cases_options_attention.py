"""Options of attention for training at other values than by default: every sparse mode, bands, prefixes, masks of each rank, dropout
that is
given, statistics of another call, rotary parts. The reference writes the visible keys of each row down."""

import torch
from cases import Case, rand
from cases_attention import BNSD, BSH, BSND, ENDS, PSE, ROWS, SBH, SINK, eight, join, split
from cases_attention_v3 import SPACE, TENSORS, gradients, no_bytes, nothing, results

FAR = 2**31 - 1


def hidden(mode, rows, columns, place, count, before, after, mask, prefix):
    """Of one sequence, the `place`-th of `count`: [rows, columns], or with heads in front."""
    i, j = torch.arange(rows)[:, None], torch.arange(columns)
    corner = i + columns - rows
    band = (j < corner - before) | (j > corner + after)
    if mode < 2:
        out = torch.zeros(rows, columns, dtype=torch.bool) if mask is None else mask.bool()
        return out if mode else out | (j < i - before) | (j > i + after)
    if mode == 2 or (mode == 8 and place):
        return j > i
    if mode == 3 or (mode == 7 and place < count - 1):
        return j > corner
    return band if mode in (4, 7, 8) else (j > corner) & (j >= prefix[place])


def one(q, k, v, scale, unseen, bias, sink, kept):
    """(result, maxima, sums) of one sequence, [heads, rows, size]; a row that sees nothing gives zeros."""
    k, v = (t.repeat_interleave(q.shape[0] // t.shape[0], 0) for t in (k, v))
    scores = ((q @ k.mT + (0 if bias is None else bias)) * scale).masked_fill(unseen, -torch.inf)
    if sink is not None:
        scores = torch.cat([scores, sink.view(-1, 1, 1).expand(*scores.shape[:2], 1)], -1)
    top = scores.detach().amax(-1, keepdim=True).clamp(min=-1e30)
    weights = torch.exp(scores - top)
    total = weights.sum(-1, keepdim=True)
    probs = (weights / total.clamp(min=1e-30))[..., : k.shape[1]]
    return (probs if kept is None else probs * kept) @ v, top, total.detach()


def attention(q, k, v, heads, layout, pse=None, padding_mask=None, atten_mask=None, *, scale=1.0, keep_prob=1.0, pre_tockens=FAR,
              next_tockens=FAR, prefix=None, actual_seq_qlen=None, actual_seq_kvlen=None, sparse_mode=0, sink=None, dropout_mask=None,
              pse_type=1, query_rope=None, key_rope=None, size=8, **_):
    if query_rope is not None:
        q, k = torch.cat([q, query_rope], -1), torch.cat([k, key_rope], -1)
    pse = pse if pse is None or pse_type == 1 else pse / scale
    if layout == "TND":
        cut = [torch.diff(torch.as_tensor(e), prepend=torch.tensor([0])).tolist() for e in (actual_seq_qlen, actual_seq_kvlen)]
        parts = list(zip(*([p.transpose(0, 1) for p in t.split(c)] for t, c in ((q, cut[0]), (k, cut[1]), (v, cut[1])))))
    else:
        parts = list(zip(*(split(t, layout, size) for t in (q, k, v))))
    done = []
    for b, (x, y, z) in enumerate(parts):
        mask = atten_mask if atten_mask is None or atten_mask.dim() == 2 else atten_mask[b % len(atten_mask)]
        unseen = hidden(sparse_mode, x.shape[1], y.shape[1], b, len(parts), pre_tockens, next_tockens, mask, prefix)
        bias, kept = None if pse is None else pse[b % len(pse)], None if dropout_mask is None else dropout_mask[b] / keep_prob
        done.append(one(x, y, z, scale, unseen, bias, sink, kept))
    if layout == "TND":
        return torch.cat([out.transpose(0, 1) for out, *_ in done]), *(torch.cat([d[i].transpose(0, 1) for d in done]) for i in (1, 2))
    return join(torch.stack([d[0] for d in done]), layout), *(torch.stack([d[i] for d in done]) for i in (1, 2))


def forward(*args, out=None, pre_tokens=FAR, next_tokens=FAR, **kwargs):
    return attention(*args, **{"pre_tockens": pre_tokens, "next_tockens": next_tokens} | kwargs)[0]


def backward(q, k, v, dy, heads, layout, *, pse=None, sink=None, query_rope=None, key_rope=None, scale_value=1.0, out=None, **kwargs):
    """dq, dk, dv, dpse, [dq_rope, dk_rope,] dsink: autograd's; what is not there has no elements."""
    names = ("q", "k", "v", "pse", "query_rope", "key_rope", "sink")
    given = dict(zip(names, (q, k, v, pse, query_rope, key_rope, sink)))
    leaves = {name: t.detach().requires_grad_() for name, t in given.items() if t is not None}
    with torch.enable_grad():
        result = forward(*(leaves[n] for n in names[:3]), heads, layout, scale=scale_value,
                         **{n: leaves.get(n) for n in names[3:]}, **kwargs)
    found = dict(zip(leaves, torch.autograd.grad(result, list(leaves.values()), dy)))
    return [found.get(name, torch.empty(0)) for name in names]


def first(*args, **kwargs):
    found = backward(*args, **kwargs)
    return *found[:4], found[6]


def third(*args, workspace=None, **kwargs):
    return first(*args, **kwargs)


def ring(q, k, v, dy, heads, layout, *, softmax_max, softmax_sum, attention_in, scale_value, out=None):
    """The gradients of a part of the keys, of which the statistics and the result are those of all keys: KEYS behind them."""
    q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
    with torch.enable_grad():
        rows = torch.cat([q @ k.repeat_interleave(2, 1).mT, BNSD[0] @ KEYS[0].repeat_interleave(2, 1).mT], -1) * scale_value
        values = torch.cat([v, KEYS[1]], 2).repeat_interleave(2, 1)
        return *torch.autograd.grad(rows.softmax(-1) @ values, (q, k, v), dy), torch.empty(0)


def of_ring():
    whole = [torch.cat(pair, 2) for pair in zip(BNSD[1:], KEYS)]
    out, top, total = attention(BNSD[0], *whole, 4, "BNSD", scale=0.3)
    return {"softmax_max": eight(top), "softmax_sum": eight(total), "attention_in": out.contiguous(), "scale_value": 0.3}


def with_statistics(*args, **kwargs):
    out, top, total = attention(*args, **kwargs)
    return out, eight(top), eight(total)


KEYS = rand(2, 2, 5, 8, seed=11), rand(2, 2, 5, 8, seed=12)
MASK = torch.rand(2, 4, 4, 6, generator=torch.Generator().manual_seed(2)) > 0.7
MASK[..., 0] = False
KEPT = (torch.rand(2, 4, 4, 6, generator=torch.Generator().manual_seed(3)) < 0.8).to(torch.uint8)
BAND = {"pre_tockens": 1, "next_tockens": 2}
TOKENS = {"pre_tokens": 1, "next_tokens": 2}
S, V = {"scale": 0.3}, {"scale_value": 0.3}
DY = {"BNSD": rand(2, 4, 4, 8, seed=2), "BSND": rand(2, 4, 4, 8, seed=2), "BSH": rand(2, 4, 32, seed=2), "SBH": rand(4, 2, 32, seed=2),
      "TND": rand(8, 4, 8, seed=2)}
PARTS = {"BNSD": BNSD, "BSND": BSND, "BSH": BSH, "SBH": SBH, "TND": ROWS}
ROPE = {"query_rope": rand(2, 4, 4, 3), "key_rope": rand(2, 2, 6, 3)}
FORMS = {  # label: (layout, options, mask)
    "band with mask": ("BNSD", BAND, MASK[0, 0]),
    "band": ("BSH", {"sparse_mode": 4, **BAND}, MASK[0, 0]),
    "triangle": ("SBH", {"sparse_mode": 2, "inner_precise": 1, "sync": True}, MASK[0, 0]),
    "prefix": ("BSND", {"sparse_mode": 6, "prefix": [5, 3]}, MASK[0, 0]),
    "mask of each head": ("BNSD", {"sparse_mode": 1, "gen_mask_parallel": False}, MASK),
    "mask of each sequence": ("BSND", {"sparse_mode": 0}, MASK[:, :1]),
    "rows, the last in a band": ("TND", {"sparse_mode": 7, **BAND, **ENDS}, MASK[0, 0]),
    "rows, the first in a band": ("TND", {"sparse_mode": 8, "pre_tockens": 9, "next_tockens": -1, **ENDS}, MASK[0, 0]),
    "rows with a prefix": ("TND", {"sparse_mode": 6, "prefix": [4, 0], **ENDS}, MASK[0, 0]),
}


def renamed(options):
    """As the second version spells them."""
    return {name.replace("tockens", "tokens"): value for name, value in options.items()}


def tensors(options):
    """As the third version has them."""
    return {**options, **(TENSORS if "actual_seq_qlen" in options else {})}


def stated(layout, mask, **options):
    """The statistics and the result of the forward pass, as its gradient takes them."""
    out, top, total = attention(*PARTS[layout], 4, layout, None, None, mask, **S, **options)
    return {"softmax_max": top.expand(*top.shape[:-1], 8).contiguous(), "softmax_sum": total.expand(*total.shape[:-1], 8).contiguous(),
            "attention_in": out.contiguous()}


CASES = []
for label, (layout, options, mask) in FORMS.items():
    parts = PARTS[layout]
    CASES.append(Case("npu_fusion_attention", (*parts, 4, layout, None, None, mask), forward, {**S, **options}, grad=(0, 1, 2),
        label=label))
    CASES.append(Case("npu_fusion_attention_v2", (*parts, 4, layout), lambda *a, atten_mask, **k: forward(*a, None, None, atten_mask, **k),
                      {**S, **renamed(options), "atten_mask": mask}, grad=(0, 1, 2), label=label))
    backward_options = {**V, **options, "atten_mask": mask}
    if layout != "BSND":
        CASES.append(Case("npu_fusion_attention_grad", (*parts, DY[layout], 4, layout), first, backward_options, label=label))
        CASES.append(Case("npu_fusion_attention_grad_v2", (*parts, DY[layout], 4, layout), backward, renamed(backward_options),
            label=label))
    if layout != "BNSD":
        CASES.append(Case("npu_fusion_attention_v3", (*parts, 4, layout, None, None, mask), forward, {**S, **tensors(options)},
                          grad=(0, 1, 2), label=label))
        CASES.append(Case("npu_fusion_attention_grad_v3", (*parts, DY[layout], 4, layout), first, tensors(backward_options), label=label))
CASES += [
    Case("npu_fusion_attention", (*BNSD, 4, "BNSD"), forward, {**S, "keep_prob": 0.8, "dropout_mask": KEPT, "seed": 3, "offset": 8},
         label="dropped as given"),
    Case("npu_fusion_attention_v2", (*BSND, 4, "BSND"), forward, {**S, "keep_prob": 0.6, "dropout_mask": KEPT, "seed": 3, "offset": 8},
         label="dropped as given"),
    *(Case(f"npu_fusion_attention_grad{version}", (*BNSD, DY["BNSD"], 4, "BNSD"), ring, {**of_ring(), **more}, label="a part of the keys")
      for version, more in (("", {}), ("_v2", {}), ("_v3", {}),
                            ("_v3.out", {"out": gradients(BNSD, torch.zeros(0), torch.zeros(0))}))),
    *(Case(op, (*ROWS, 4, "TND"), with_statistics, {**S, **ENDS, "sparse_mode": 3, "softmax_layout": "TND"}, label="statistics in rows")
      for op in ("npu_fusion_attention", "npu_fusion_attention_v2")),
    Case("npu_fusion_attention", (rand(0, 4, 4, 8), rand(0, 2, 6, 8), rand(0, 2, 6, 8), 4, "BNSD"),
         lambda *a, **k: torch.zeros(0, 4, 4, 8), S, label="empty"),
    *(Case("npu_fusion_attention_grad", (*PARTS[layout], DY[layout], 4, layout), first,
           {**V, **stated(layout, None, **options), **options, **more}, label=f"stated, {layout}")
      for layout, options, more in (("BNSD", {"sparse_mode": 3}, {"inner_precise": 1}), ("SBH", {}, {"sync": True, "numels": 0}),
                                    ("TND", ENDS, {"softmax_layout": "TND", "gen_mask_parallel": False}))),
    Case("npu_fusion_attention_grad_v2", (*BNSD, DY["BNSD"], 4, "BNSD"), backward, {**V, **ROPE, "sink": SINK}, label="rotary parts, sink"),
    Case("npu_fusion_attention_grad_v2", (*ROWS, DY["TND"], 4, "TND"), backward,
         {**V, **ENDS, **stated("TND", None, **ENDS), "softmax_layout": "TND"}, label="stated"),
    Case("npu_fusion_attention_grad_v3", (*BSH, DY["BSH"], 4, "BSH"), first, {**V, **stated("BSH", None), "inner_precise": 1},
         label="stated"),
    Case("npu_fusion_attention_v3.out", (*BSND, 4, "BSND", PSE, None, MASK[:, :1]), forward,
         {**S, **BAND, "out": results("BSND")}, label="band with mask and bias"),
    Case("npu_fusion_attention_v3.out", (*BNSD, 4, "BNSD", None, None, MASK[0, 0]), forward,
         {**S, "sparse_mode": 6, "prefix": [5, 3], "out": results("BNSD"), **SPACE}, label="prefix"),
    Case("npu_fusion_attention_grad_v3.out", (*BNSD, DY["BNSD"], 4, "BNSD"), third,
         {**V, **BAND, "atten_mask": MASK[0, 0], "out": gradients(BNSD, torch.zeros(0), torch.zeros(0))}, label="band with mask"),
    Case("npu_fusion_attention_grad_v3.out", (*BSH, DY["BSH"], 4, "BSH"), third,
         {**V, "sparse_mode": 6, "prefix": [5, 3], "atten_mask": MASK[0, 0], **stated("BSH", MASK[0, 0], sparse_mode=6, prefix=[5, 3]),
          "out": gradients(BSH, torch.zeros(0), torch.zeros(0))}, label="prefix, stated"),
    *(Case("_npu_fusion_attention_v3_infer_output", (*parts, 4, layout), nothing, label=label)
      for label, parts, layout in (("BSND", BSND, "BSND"), ("rows", ROWS, "TND"), ("narrow values", (*BNSD[:2], rand(2, 2, 6, 5)),
          "BNSD"))),
    *(Case("_npu_fusion_attention_grad_v3_infer_output", args, nothing, label=label)
      for label, args in (("bias", (*SBH, PSE)), ("rows", (*ROWS, None, SINK)), ("empty", tuple(t[:0] for t in BNSD)))),
    *(Case("_npu_fusion_attention_v3_get_max_workspace", (*PARTS[layout], 4, layout, None, None, mask), no_bytes, {**S, **tensors(options)},
           label=label) for label, (layout, options, mask) in list(FORMS.items())[3:5]),
    *(Case("_npu_fusion_attention_grad_v3_get_max_workspace", (*PARTS[layout], DY[layout], 4, layout), no_bytes,
           {**V, **tensors(options), "atten_mask": mask}, label=label) for label, (layout, options, mask) in list(FORMS.items())[3:5]),
]
# Why the official client cannot be asked, or does not agree.
NOT_OFFICIAL = {
    "npu_fusion_attention_grad_v2-rotary parts, sink": "it leaves rotary parts out but for the layout TND",
    "npu_fusion_attention_grad_v2-stated": "it does not pass softmax_layout on",
    "npu_fusion_attention_v2-statistics in rows": "the same",
    **{str(case): "it takes the layout TND only" for case in CASES if case.op.endswith((".out", "_get_max_workspace"))},
}
