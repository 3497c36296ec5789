"""Operators, types and arguments that packages on PyPI and MindSpeed use (used_names.txt): all are there but those that are refused."""

import re
import sys
from functools import reduce
from pathlib import Path

import pytest
import torch

import torch_npu

sys.path.insert(0, str(Path(__file__).resolve().parent))

import atb_cases  # noqa: E402
from test_custom_ops import CASES, ELSEWHERE, MORE  # noqa: E402

USED = (Path(__file__).parent / "used_names.txt").read_text().split()
DEMAND = Path(__file__).parents[2] / "tools/surface/demand.txt"
OPERATOR = re.compile(r"^(?:torch_npu|torch\.ops\.(?:npu|atb)|torch_npu\.atb)\.(_?npu_\w+?)(?:\.out|\.default)?\t", re.M)
# Demanded operators whose meaning is not published: that of ATB's, and how npu_matmul_compress_dequant packs its weights.
NOT_COMPUTED = {"npu_matmul_compress_dequant", "_npu_flash_attention", "_npu_flash_attention_qlens", "_npu_flash_attention_v3",
                "_npu_paged_attention_mla", "_npu_paged_attention_splitfuse", "_npu_paged_attention_splitfuse_v2"}
ROOTS = {"torch": torch, "torch_npu": torch_npu}
# Arguments of those operators that most calls pass: a case each has to have.
PASSED = [
    ("npu_fused_infer_attention_score", {"input_layout": "TND"}),
    ("npu_fused_infer_attention_score", {"input_layout": "TND", "block_table": None}),
    ("npu_fused_infer_attention_score_v2", {"input_layout": "TND", "block_table": None}), ("npu_quant_matmul", {"group_sizes": None}),
    ("npu_quant_matmul", {"pertoken_scale": None}), ("npu_dynamic_quant", {"dst_type": None}), ("npu_grouped_matmul", {"scale": None}),
    ("npu_grouped_matmul", {"per_token_scale": None}), ("npu_grouped_matmul", {"group_list_type": 1}),
]  # None: any value


def test_every_used_name_exists():
    missing = set()
    for name in USED:
        root, *parts = name.split(".")
        try:
            reduce(getattr, parts, ROOTS[root])
        except AttributeError:
            missing.add(name.rpartition(".")[2])
    assert not missing


def test_every_demanded_operator_is_compared_with_a_reference():
    compared = {case.op.partition(".")[0] for case in (*CASES, *atb_cases.CASES)}
    compared |= ELSEWHERE.union(*(getattr(module, "ELSEWHERE", ()) for module in MORE))
    assert set(OPERATOR.findall(DEMAND.read_text())) - compared == NOT_COMPUTED
    for name in NOT_COMPUTED - {"npu_matmul_compress_dequant"}:  # which has a row, for CANN
        with pytest.raises(AttributeError, match="not published"):
            getattr(torch_npu, name)


@pytest.mark.parametrize(("operator", "arguments"), PASSED, ids=str)
def test_every_passed_argument_has_a_case(operator, arguments):
    def passes(case):
        return all(name in case.kwargs and value in (None, case.kwargs[name]) for name, value in arguments.items())

    assert any(case.op == operator and passes(case) for case in CASES)


def test_gradients_of_attention_take_keep_prob():
    """The argument that most calls of the gradient pass. The result is linear in the values: it is their product with its gradient."""
    q, k, v = (torch.randn(1, 2, 4, 8).npu() for _ in range(3))
    out, top, total, _, seed, offset, numels = torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD", keep_prob=0.5)
    grads = torch_npu.npu_fusion_attention_grad(q, k, v, torch.ones_like(out), 2, "BNSD", softmax_max=top, softmax_sum=total,
                                                attention_in=out, keep_prob=0.5, seed=seed, offset=offset, numels=numels)
    torch.testing.assert_close((grads[2] * v).sum(), out.sum(), rtol=1e-4, atol=1e-4)
