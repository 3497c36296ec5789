"""Sparse attention: statistics stay in float32 beside short types, refusals, and what the third version of attention asks for."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cases_attention_v3  # noqa: E402
import cases_nsa  # noqa: E402
import cases_sparse_attention as cases  # noqa: E402
from cases import rand  # noqa: E402
from test_custom_ops import operator, outputs, to  # noqa: E402
from test_rows import TOLERANCE, WITH_STATISTICS, widened  # noqa: E402

ALL = [*cases.CASES, *cases_nsa.CASES, *cases_attention_v3.CASES]
STATISTICS = {"softmax_max", "softmax_sum", "softmax_lse", "softmax_max_index", "softmax_sum_index", "sinks"}


@pytest.mark.parametrize("case", [case for case in ALL if case.op in WITH_STATISTICS], ids=str)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_statistics_are_float32_beside_short_types(case, dtype):
    def short(name, value):
        if name == "out" and case.op.endswith("_v3.out"):
            return [short("softmax_max" if i in (1, 2) else "", t) for i, t in enumerate(value)]
        floating = isinstance(value, torch.Tensor) and value.dtype == torch.float32
        return value.to(dtype) if floating and name not in STATISTICS else value

    names = [argument.name for argument in operator(case.op)._schema.arguments]
    args = tuple(short(name, value) for name, value in zip(names, case.args))
    kwargs = {name: short(name, value) for name, value in case.kwargs.items()}
    actual = outputs(operator(case.op)(*to("npu", args), **to("npu", kwargs)))
    expected = outputs(case.reference(*widened(args), **widened(kwargs)))
    for a, e in zip(actual, expected):
        torch.testing.assert_close(a.cpu().float(), e.float(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


NPU = torch.ops.npu
Q, K = rand(1, 2, 2, 8), rand(1, 4, 1, 8)
CHOSEN = torch.zeros(1, 2, 1, 3, dtype=torch.int32)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda d: NPU.npu_lightning_indexer(Q.to(d), K.to(d), rand(1, 2, 2).to(d), layout_query="BNSD"), "layout of query"),
        (lambda d: NPU.npu_lightning_indexer(Q.to(d), K.to(d), rand(1, 2, 2).to(d), layout_key="PA_BSND"), "actual lengths of the keys"),
        (lambda d: NPU.npu_lightning_indexer(Q.to(d), K.to(d), rand(1, 2, 2).to(d), sparse_count=0), "sparse_count is 0"),
        (lambda d: NPU.npu_lightning_indexer(Q.to(d), K.to(d), rand(1, 2, 2).to(d), sparse_mode=2), "sparse_mode is 2, expected 0 or 3"),
        (lambda d: NPU.npu_sparse_flash_attention(Q.to(d), K.to(d), K.to(d), CHOSEN.to(d), 1.0, attention_mode=1), "attention_mode is 1"),
        (
            lambda d: NPU.npu_sparse_flash_attention(
                Q[0].to(d), K[0].to(d), None, CHOSEN[0].to(d), 1.0, layout_query="TND", layout_kv="TND"
            ),
            "ends of the query",
        ),
        (lambda d: NPU.npu_kv_quant_sparse_flash_attention(Q.to(d), K.to(d), K.to(d), CHOSEN.to(d), 1.0, 0, 2), "key_quant_mode"),
        (
            lambda d: NPU.npu_block_sparse_attention(
                *[Q.to(d)] * 3, torch.ones(1, 2, 1, 1, dtype=torch.int8, device=d), [8, 64], q_input_layout="BNSD", kv_input_layout="BNSD"
            ),
            "multiple of 128",
        ),
        (
            lambda d: NPU.npu_block_sparse_attention(*[Q[0].to(d)] * 3, torch.ones(1, 2, 1, 1, dtype=torch.int8, device=d), [8, 128]),
            "needs actual_seq_lengths",
        ),
        (lambda d: NPU.npu_nsa_compress(rand(8, 2, 4).to(d), rand(4, 2).to(d), 4, 2), "actual_seq_len is absent"),
        (lambda d: NPU.npu_nsa_compress(rand(8, 2, 4).to(d), rand(4, 2).to(d), 4, 0, actual_seq_len=[8]), "compress_stride"),
        (
            lambda d: NPU.npu_nsa_select_attention(
                *[rand(8, 2, 4).to(d)] * 3, CHOSEN[0].to(d), 1.0, 4, 2, 3, actual_seq_qlen=[8], actual_seq_kvlen=[8]
            ),
            "head_num is 4",
        ),
    ],
)
def test_wrong_arguments_are_refused_with_and_without_a_card(call, message):
    for device in ("npu", "meta"):
        with pytest.raises(RuntimeError, match=message):
            call(device)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: NPU.npu_sparse_flash_attention(Q.npu(), K.npu(), K.npu(), CHOSEN[..., 0].npu(), 1.0), "sparse_indices"),
        (lambda: NPU.npu_lightning_indexer(Q.npu(), K.npu(), rand(1, 2, 3).npu()), "weights"),
        (lambda: NPU.npu_fused_floyd_attention(*[rand(1, 1, 2, 3, 4).npu()] * 5), "key_jk"),
        (
            lambda: NPU.npu_nsa_select_attention(
                *[rand(8, 2, 4).npu()] * 3, torch.zeros(8, 2, 1).int().npu(), 1.0, 2, 2, 3, actual_seq_qlen=[8], actual_seq_kvlen=[8]
            ),
            "topk_indices",
        ),
    ],
)
def test_shapes_that_do_not_fit_are_refused_by_the_device(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()
        torch.npu.synchronize()


def test_gradients_need_what_the_forward_pass_was_not_asked_for():
    q, k = Q.npu().requires_grad_(), K.npu()
    out, _, _ = NPU.npu_sparse_flash_attention(q, k, k, CHOSEN.npu(), 1.0)
    with pytest.raises(RuntimeError, match="return_softmax_lse=True"):
        out.sum().backward()
    mask = torch.ones(1, 2, 1, 1, dtype=torch.int8).npu()
    b = rand(1, 2, 2, 8).npu().requires_grad_()
    out, _ = NPU.npu_block_sparse_attention(b, b, b, mask, [8, 128], q_input_layout="BNSD", kv_input_layout="BNSD", num_key_value_heads=2)
    with pytest.raises(RuntimeError, match="softmax_lse_flag=1"):
        out.sum().backward()


def test_indices_out_of_range_are_left_out():
    """A row of indices ends with the first negative one; those behind the keys select nothing."""
    k = K.npu()
    few = torch.tensor([0, 9, 2**31 - 1], dtype=torch.int32).expand(1, 2, 1, 3).npu()
    one = torch.tensor([0, -1, 3], dtype=torch.int32).expand(1, 2, 1, 3).npu()
    a, b = (NPU.npu_sparse_flash_attention(Q.npu(), k, k, chosen, 1.0)[0] for chosen in (few, one))
    assert torch.equal(a, b) and torch.allclose(a.cpu(), K[:, :1].expand_as(Q))


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_a_graph_learns_the_shapes_of_the_third_version(device):
    q, k, v = torch.empty(2, 4, 3, 8, device=device), torch.empty(2, 4, 5, 8, device=device), torch.empty(2, 4, 5, 6, device=device)
    shapes = [tuple(t.shape) for t in NPU._npu_fusion_attention_v3_infer_output(q, k, v, 4, "BNSD")]
    assert shapes == [(2, 4, 3, 6), (2, 4, 3, 8), (2, 4, 3, 8)]
    rows = NPU._npu_fusion_attention_v3_infer_output(q[0].transpose(0, 1), k[0].transpose(0, 1), v[0].transpose(0, 1), 4, "TND")
    assert [tuple(t.shape) for t in rows] == [(3, 4, 6), (3, 4, 8), (3, 4, 8)]
    shapes = [tuple(t.shape) for t in NPU._npu_fusion_attention_grad_v3_infer_output(q, k, v, None, torch.empty(4, device=device))]
    assert shapes == [(2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 6), (0,), (4,)]
