"""Every version of attention for training does with an argument what all others do: through the C ABI, against attention written out."""

import re
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cases import rand  # noqa: E402

from abi import ABI, run  # noqa: E402

HEADS, QUERIES, KEYS, SIZE, ROPE, SCALE, KEPT = 2, 4, 6, 8, 4, 0.3, 0.75
Q, K, V, DY = (rand(1, HEADS, rows, SIZE, seed=i) for i, rows in enumerate((QUERIES, KEYS, KEYS, QUERIES)))
Q_ROPE, K_ROPE = (rand(1, HEADS, rows, ROPE, seed=4 + i) for i, rows in enumerate((QUERIES, KEYS)))
BIAS, SINK = rand(1, HEADS, QUERIES, KEYS, seed=6), rand(HEADS, seed=7)
OTHER_OUT = rand(1, HEADS, QUERIES, SIZE, seed=8)  # of all keys, of which these are a part: what ring attention gives
HIDDEN = torch.rand(QUERIES, KEYS, generator=torch.Generator().manual_seed(0)) > 0.7
HIDDEN[:, 0] = False
KEPT_ONES = torch.rand(1, HEADS, QUERIES, KEYS, generator=torch.Generator().manual_seed(1)) < KEPT
DISTANCE = torch.arange(KEYS) - torch.arange(QUERIES)[:, None]  # 0 where a query meets the key of its own number
# From the lower right corner, where sparse_mode 4 and 6 begin.
CORNER = DISTANCE - (KEYS - QUERIES)
# What a call is given besides, by the argument that only some versions have.
OPTIONS = {
    "plain": ("query", {}),
    "bias": ("pse", {"pse": BIAS}),
    "bias after the scale": ("pse_type", {"pse": BIAS, "pse_type": 0}),
    "dropout": ("drop_mask", {"drop_mask": KEPT_ONES, "keep_prob": KEPT}),
    "mask": ("atten_mask", {"atten_mask": HIDDEN}),
    "mask, bias and dropout": ("pse", {"atten_mask": HIDDEN, "pse": BIAS, "drop_mask": KEPT_ONES, "keep_prob": KEPT}),
    "band": ("pre_tokens", {"atten_mask": HIDDEN, "sparse_mode": 4, "pre_tokens": 3, "next_tokens": 0}),
    "prefix": ("prefix", {"atten_mask": HIDDEN, "sparse_mode": 6, "prefix": [3]}),
    "sink": ("sink", {"sink": SINK}),
    "statistics in rows": ("softmax_layout", {"softmax_layout": "TND"}),
    "rope": ("query_rope", {"query_rope": Q_ROPE, "key_rope": K_ROPE}),
}
SIGNATURES = dict(re.findall(r"^(aclnnFlashAttention\w+): \((.*)\)", ABI.read_text(), re.MULTILINE))


def names(version):
    return {argument.split()[1] for argument in re.sub(r"=[^,]*", "", SIGNATURES[version]).split(", ")}


def in_rows(version):
    return "VarLen" in version or "Unpadding" in version


def cases(pattern):
    return [(version, option) for version in SIGNATURES if re.fullmatch(pattern, version)
            for option, (argument, _) in OPTIONS.items() if argument in names(version)
            if option != "statistics in rows" or in_rows(version)]


def by_hand(options):
    """What attention is of: the scores, their softmax with its maxima and sums, what is kept of it; queries and keys as they are used."""
    q, k = (torch.cat([t, options[name]], -1) if name in options else t for t, name in ((Q, "query_rope"), (K, "key_rope")))
    scores, bias = q @ k.mT, options.get("pse", 0)
    scores = scores * SCALE + bias if options.get("pse_type", 1) == 0 else (scores + bias) * SCALE
    mode = options.get("sparse_mode", 0)
    if mode == 4:
        hidden = (CORNER > options["next_tokens"]) | (-CORNER > options["pre_tokens"])
    elif mode == 6:
        hidden = (CORNER > 0) & (torch.arange(KEYS) >= options["prefix"][0])
    else:
        hidden = options.get("atten_mask", torch.tensor(False))
    scores = scores.masked_fill(hidden, -torch.inf)
    top, total = scores.amax(-1, keepdim=True), 0
    if "sink" in options:
        top = top.maximum(options["sink"].view(1, -1, 1, 1))
        total = (options["sink"].view(1, -1, 1, 1) - top).exp()
    total = total + (scores - top).exp().sum(-1, keepdim=True)
    kept = options["drop_mask"] / options["keep_prob"] if "drop_mask" in options else torch.ones(())
    return q, k, (scores - top).exp() / total, top, total, kept


def form(tensor, rows):
    """[1, heads, rows, size] as [rows, heads, size] if sequences lie in a row."""
    return (tensor[0].transpose(0, 1) if rows else tensor).contiguous().npu()


def arguments(version, options):
    rows = in_rows(version)
    found = {"query": form(Q, rows), "key": form(K, rows), "value": form(V, rows), "scale": SCALE, "head_num": HEADS, "pse_type": 1,
             "input_layout": "TND" if rows else "BNSD", "keep_prob": 1.0, "pre_tokens": 2**31 - 1, "next_tokens": 2**31 - 1}
    if rows:
        found |= {"actual_seq_qlen": [QUERIES], "actual_seq_kvlen": [KEYS]}
    for name, value in options.items():
        if name == "drop_mask":
            bits = torch.nn.functional.pad(value.flatten(), (0, -value.numel() % 128)).view(-1, 8)
            value = (bits << torch.arange(8)).sum(-1).to(torch.uint8).npu()
        elif name == "atten_mask" and options.get("sparse_mode"):
            length = 2048 if options["sparse_mode"] == 4 else 3072  # these modes have masks of one size
            value = torch.ones(length, 2048, dtype=torch.bool).triu(1).npu()
        elif isinstance(value, torch.Tensor):
            value = form(value, rows) if name.endswith("_rope") else value.npu()
        found[name] = value
    return {name: value for name, value in found.items() if name in names(version)}, rows


def statistics(given, of=None):
    """Room for maxima or sums, or those given, eight times each. Those of a sequence in a row lie head by head, unless told."""
    each = (torch.zeros(1, HEADS, QUERIES, 1) if of is None else of).expand(-1, -1, -1, 8)
    if given["input_layout"] == "BNSD" or given.get("softmax_layout") == "TND":
        return form(each, given["input_layout"] == "TND")
    return each.reshape(QUERIES, HEADS, 8).npu()


@pytest.mark.parametrize("version, option", cases(r"aclnnFlashAttention(VarLen)?Score(V\d)?"))
def test_forward(library, version, option):
    given, rows = arguments(version, options := OPTIONS[option][1])
    out, top, total = form(torch.zeros_like(Q), rows), statistics(given), statistics(given)
    run(library, version, **given, softmax_max=top, softmax_sum=total, attention_out=out)
    _, _, weights, high, sums, kept = by_hand(options)
    torch.testing.assert_close(out.cpu(), form((weights * kept) @ V, rows).cpu(), rtol=1e-4, atol=1e-5)
    # Any maximum and sum that make up the row's sum of exponentials serve the gradient.
    torch.testing.assert_close((top + total.log()).cpu(), statistics(given, high + sums.log()).cpu(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("version, option", cases(r"aclnnFlashAttention(Unpadding)?ScoreGrad(V\d)?"))
def test_gradient_of_a_part_of_the_keys(library, version, option):
    given, rows = arguments(version, options := OPTIONS[option][1])
    q, k, weights, top, total, kept = by_hand(options)
    of_scores = weights * ((DY @ V.mT) * kept - (DY * OTHER_OUT).sum(-1, keepdim=True))
    dq, dk = of_scores @ k * SCALE, of_scores.mT @ q * SCALE
    wanted = {"dq": dq[..., :SIZE], "dk": dk[..., :SIZE], "dv": (weights * kept).mT @ DY}
    if "query_rope" in options:
        wanted |= {"dq_rope": dq[..., SIZE:], "dk_rope": dk[..., SIZE:]}
    results = {name: form(torch.zeros_like(value), rows) for name, value in wanted.items()}
    wanted = {name: form(value, rows) for name, value in wanted.items()}
    if "pse" in options:
        results["dpse"], wanted["dpse"] = torch.zeros_like(BIAS).npu(), of_scores * (1 if options.get("pse_type", 1) == 0 else SCALE)
    if "sink" in options:
        of_sink = (options["sink"].view(1, -1, 1, 1) - top).exp() / total * -(DY * OTHER_OUT).sum(-1, keepdim=True)
        results["dsink"], wanted["dsink"] = torch.zeros(HEADS).npu(), of_sink.sum((0, 2, 3))
    run(library, version, **given, dy=form(DY, rows), softmax_max=statistics(given, top), softmax_sum=statistics(given, total),
        attention_in=form(OTHER_OUT, rows), **results)
    for name, actual in results.items():
        torch.testing.assert_close(actual.cpu(), wanted[name].cpu(), rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
