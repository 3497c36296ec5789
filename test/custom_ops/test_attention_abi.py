"""Versions of the attention operators that no operator here calls, called through the C ABI: against the ones that are."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cases_inference as inference  # noqa: E402
from cases import rand  # noqa: E402
from cases_attention import BNSD, BSH, ENDS, PSE, ROWS, SINK, attend, fused, gradient, split  # noqa: E402

from abi import run, signature  # noqa: E402

SCALE = 0.3


NUMBERS = {"scale": SCALE, "keep_prob": 1.0, "pre_tokens": 2**31 - 1, "next_tokens": 2**31 - 1, "head_num": 4, "pse_type": 1}
FORMS = {
    "BNSD": (BNSD, {}),
    "bias and sink": (BNSD, {"pse": PSE, "sink": SINK}),
    "BSH": (BSH, {}),
    "rows": (ROWS, {"actual_seq_qlen": ENDS["actual_seq_qlen"], "actual_seq_kvlen": ENDS["actual_seq_kvlen"]}),
}


def on_card(tree):
    return {name: value.npu() if isinstance(value, torch.Tensor) else value for name, value in tree.items()}


@pytest.mark.parametrize("form", FORMS)
def test_the_fourth_version_of_attention_and_of_its_gradient(library, form):
    parts, more = FORMS[form]
    layout = "TND" if form == "rows" else form if form == "BSH" else "BNSD"
    query, key, value = (t.npu() for t in parts)
    out = torch.empty_like(query)
    rows = (len(parts[0]), 4, 8) if layout == "TND" else (2, 4, 4, 8)
    top, total = torch.empty(rows, device="npu"), torch.empty(rows, device="npu")
    common = {**NUMBERS, **on_card(more), "query": query, "key": key, "value": value, "input_layout": layout}
    run(library, "aclnnFlashAttentionScoreV4", **common, softmax_max=top, softmax_sum=total, attention_out=out)
    expected = fused(*parts, 4, layout, scale=SCALE, **more)
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)
    if layout != "TND":
        _, high, sums = attend(*(split(t, layout, 8) for t in parts), SCALE, None, more.get("pse"), more.get("sink"))
        # Any maximum and sum that make up the row's sum of exponentials serve the gradient.
        torch.testing.assert_close((top + total.log()).cpu(), (high + sums.log()).expand_as(top), rtol=1e-4, atol=1e-5)

    dy = rand(*out.shape, seed=4)
    results = {"dq": torch.empty_like(query), "dk": torch.empty_like(key), "dv": torch.empty_like(value)}
    results |= {"d" + name: torch.empty_like(t.npu()) for name, t in more.items() if isinstance(t, torch.Tensor)}
    run(library, "aclnnFlashAttentionScoreGradV4", **common, dy=dy.npu(), softmax_max=top, softmax_sum=total, attention_in=out, **results)
    wanted = gradient(*parts, dy, 4, layout, scale_value=SCALE, **more)
    for a, e in zip(results.values(), wanted):
        torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_query_key_and_value_of_one_product(dtype):
    """_transform_bias_rescale_qkv is one launch of aclnnTransformBiasRescaleQkv."""
    qkv, bias = rand(2, 5, 24).to(dtype), rand(24, seed=1).to(dtype)
    actual = torch._transform_bias_rescale_qkv(qkv.npu(), bias.npu(), 2)
    query, key, value = (qkv.float() + bias.float()).view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
    for a, e in zip(actual, (query / 2, key, value)):
        torch.testing.assert_close(a.cpu(), e.to(dtype))
    with pytest.raises(RuntimeError, match="qkv_bias"):
        torch._transform_bias_rescale_qkv(qkv.npu(), bias[:3].npu(), 2)
    with pytest.raises(RuntimeError, match="num_heads"):
        torch._transform_bias_rescale_qkv(qkv.npu(), bias.npu(), 3)


# Names of the fourth version -> those of the others.
FOURTH = {"actual_seq_qlen": "actual_seq_lengths", "actual_seq_kvlen": "actual_seq_lengths_kv", "num_query_heads": "num_heads",
          "softmax_scale": "scale", "quant_scale_out": "quant_scale2", "quant_offset_out": "quant_offset2",
          "dequant_scale_key": "key_antiquant_scale", "dequant_offset_key": "key_antiquant_offset",
          "dequant_scale_value": "value_antiquant_scale", "dequant_offset": "value_antiquant_offset",
          "key_quant_mode": "key_antiquant_mode", "value_quant_mode": "value_antiquant_mode",
          "return_softmax_lse": "softmax_lse_flag", "learnable_sink": "sink"}
OTHERS = {"input_layout_ptr": "input_layout", "default_learnable_sink": "sink"}


def calls_for_inference():
    """Each case of the operator as a call of each version that has its arguments: {argument: value}, and the case."""
    for version in "2345":
        name = f"aclnnFusedInferAttentionScoreV{version}"
        keys = {argument: (FOURTH | OTHERS if version == "4" else OTHERS).get(argument, argument) for _, argument in signature(name)}
        for case in inference.FUSED:
            given = dict(case.kwargs) | dict(zip(("query", "key_tensors", "value_tensors"), case.args))
            given |= {"sink": given.pop("learnable_sink")} if "learnable_sink" in given else {}
            if case.op == inference.FIA and set(given) <= set(keys.values()):
                yield pytest.param(name, {argument: given[key] for argument, key in keys.items() if key in given}, case,
                                   id=f"V{version}-{case.label}")


@pytest.mark.parametrize("name, given, case", list(calls_for_inference()))
def test_versions_of_attention_for_inference(library, name, given, case):
    wanted = case.reference(*case.args, **case.kwargs)
    wanted = [wanted[0].to(torch.int8) if wanted[0].dtype == torch.int8 else wanted[0].to(case.args[0].dtype), *wanted[1:]]
    results = [torch.zeros_like(w, device="npu") for w in wanted] + [torch.zeros(1, device="npu")] * (2 - len(wanted))
    numbers = {"pre_tokens": 2**31 - 1, "next_tokens": 2**31 - 1} | on_card(given)
    numbers |= {key: [numbers[key]] for key in ("key_tensors", "value_tensors")}
    run(library, name, **numbers, **dict(zip(("out_tensor" if name.endswith("V4") else "out", "softmax_lse"), results)))
    for actual, expected in zip(results, wanted):
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_the_fifth_version_of_attention_for_inference(library):
    """With rotary parts and a sink, of sequences in a row."""
    parts = {"query": inference.ROWS, "query_rope": rand(5, inference.N, 4), "key_rope": rand(9, inference.M, 4, seed=3)}
    key, value, sink = inference.ROW_K, inference.ROW_V[..., :6].contiguous(), rand(inference.N, seed=4)
    lengths = {"actual_seq_lengths": inference.ENDS, "actual_seq_lengths_kv": inference.KV_ENDS}
    out, sums = torch.empty(5, inference.N, 6, device="npu"), torch.empty(5, inference.N, 1, device="npu")
    run(library, "aclnnFusedInferAttentionScoreV5", **on_card(parts), key_tensors=[key.npu()], value_tensors=[value.npu()], **lengths,
        default_learnable_sink=sink.npu(), **inference.HEADS, pre_tokens=2**31 - 1, next_tokens=2**31 - 1, input_layout_ptr="TND",
        softmax_lse_flag=1, out=out, softmax_lse=sums)
    query = parts.pop("query")
    expected = inference.fused(query, key, value, **parts, **lengths, sink=sink, input_layout="TND", softmax_lse_flag=True,
                               **inference.HEADS)
    for actual, wanted in zip((out, sums), expected):
        torch.testing.assert_close(actual.cpu(), wanted, rtol=1e-4, atol=1e-5)
