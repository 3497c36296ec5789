"""torch.ops.atb's masked attention, products and numbers: launches, what a mask holds, refusals, tensors without numbers, captures."""

import sys
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

import torch_npu

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent / "ops")]
import atb_masked_cases as masked  # noqa: E402
import counters  # noqa: E402
from test_custom_ops import to  # noqa: E402
from test_rows import cast  # noqa: E402

CASES = {str(case): case for case in masked.CASES}
HALF, BRAIN = torch.float16, torch.bfloat16
# Mask, type and number of launches: the encoding of bfloat16 is undone before the launch, a triangle of pages becomes the launch's own.
LAUNCHES = [("_npu_flash_attention-two", HALF, 1), ("_npu_flash_attention-two", BRAIN, 2), ("_npu_flash_attention-a mask of each", HALF, 1),
            ("_npu_flash_attention_v2.out-each head", BRAIN, 1), ("_npu_flash_attention_v3-two", HALF, 1),
            ("_npu_flash_attention_qlens-ragged", BRAIN, 3), ("_npu_flash_attention_prefix_v2.out-ragged", HALF, 3),
            ("_npu_paged_attention_splitfuse-as many each", BRAIN, 1), ("_npu_paged_attention_splitfuse-one token each", HALF, 1),
            ("_npu_paged_attention_splitfuse-ragged", HALF, 3), ("_npu_paged_attention_splitfuse_v2-ragged", HALF, 2),
            ("_npu_paged_attention_mla-as in DeepSeek", HALF, 1), ("npu_multi_head_latent_attention-as in DeepSeek", HALF, 1),
            ("npu_multi_head_latent_attention.lse_out-ring", BRAIN, 2), ("_npu_matmul_add_fp32-tall", torch.float32, 1),
            ("_npu_matmul_add_fp32-tall", HALF, 2), ("_npu_quantize_per_tensor-one scale", HALF, 5)]


def operator(case):
    packet, _, overload = case.op.partition(".")
    return getattr(getattr(torch.ops.atb, packet), overload or "default")


def on_card(case, dtype):
    """Arguments as a program has them: lengths stay on the host."""
    tree = tree_map_only(torch.Tensor, lambda t: masked.encoded(case, t, dtype), cast((case.args, case.kwargs), dtype))
    return tree_map_only(torch.Tensor, lambda t: t if t.dtype == torch.int32 and t.dim() == 1 else t.npu(), tree)


def called(case, dtype=torch.float32):
    args, kwargs = on_card(case, dtype)
    return operator(case)(*args, **kwargs)


@pytest.mark.parametrize("name, dtype, launches", LAUNCHES, ids=str)
def test_launches_and_no_copies(name, dtype, launches):
    case = CASES[name]
    args, kwargs = on_card(case, dtype)
    operator(case)(*args, **kwargs)
    torch.npu.synchronize()
    with counters.Counted() as counted:
        operator(case)(*args, **kwargs)
        torch.npu.synchronize()
    assert (counted.tasks, counted.d2h_copies, counted.h2d_copies) == (launches, 0, 0)


def flash(mask, name="_npu_flash_attention"):
    """Three tokens with scores of zero, whose values are 1, 2 and 4."""
    values = torch.tensor([1.0, 2, 4]).view(3, 1, 1).expand(3, 1, 8).to(mask.dtype).npu()
    zeros = torch.zeros_like(values)
    out = torch.empty_like(zeros)
    getattr(torch_npu, name)(zeros, zeros, values, mask.npu(), masked.ints(3), 1.0, 1, 1, out=out)
    return out[:, 0, 0].cpu().float()


def test_numbers_of_a_float16_mask_are_added():
    mask = torch.tensor([[0, -torch.inf, -torch.inf], [2.0, 0, 0], [-10000, 0, -1]], dtype=HALF)
    weights = mask.float().softmax(-1)
    for name in ("_npu_flash_attention", "_npu_flash_attention_v3"):
        torch.testing.assert_close(flash(mask, name), weights @ torch.tensor([1.0, 2, 4]), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", [BRAIN, torch.float32], ids=str)
def test_ones_of_another_mask_hide(dtype):
    mask = torch.tensor([[0, 1, 1], [0, 0, 1], [1, 0, 0]], dtype=dtype)
    for name in ("_npu_flash_attention", "_npu_flash_attention_v3"):
        torch.testing.assert_close(flash(mask, name), torch.tensor([1.0, 1.5, 3]), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [HALF, BRAIN], ids=str)
def test_a_mask_over_pages_is_added_in_every_type(dtype):
    query, keys = torch.zeros(2, 1, 8, dtype=dtype).npu(), torch.zeros(1, 4, 1, 8, dtype=dtype).npu()
    values = torch.tensor([1.0, 2, 4, 8]).view(1, 4, 1, 1).expand(1, 4, 1, 8).to(dtype).contiguous().npu()
    mask, out = torch.tensor([[0, 0, -10000, -10000], [1, 0, 1, -10000]], dtype=dtype), torch.empty_like(query)
    torch_npu._npu_paged_attention_splitfuse(query=query, key_cache=keys, value_cache=values, mask=mask.npu(), num_kv_heads=1, num_heads=1,
                                             block_table=torch.zeros(1, 1, dtype=torch.int32).npu(), seq_len=masked.ints(2),
                                             context_lens=masked.ints(3), scale_value=1.0, out=out)
    expected = mask[:, :3].float().softmax(-1) @ torch.tensor([1.0, 2, 4])
    torch.testing.assert_close(out[:, 0, 0].cpu().float(), expected, rtol=1e-2, atol=1e-2)


def test_a_step_of_mixed_lengths_is_a_launch_for_each_run_of_them():
    """Ten sequences that decode one token and a prompt of four."""
    lengths, context = (1,) * 10 + (4,), (7,) * 10 + (4,)
    table = torch.tensor([[0, 1]] * 11, dtype=torch.int32)
    query, out = torch.randn(14, 2, 8), torch.empty(14, 2, 8).npu()
    pages = [torch.randn(2, 4, 1, 8) for _ in range(2)]
    mask = masked.causal_rows(lengths, context, 8)
    arguments = (query, *pages, table, masked.ints(*context), mask, masked.ints(*lengths), 1, 2, 0.3)
    args = [t.npu() if isinstance(t, torch.Tensor) and t.dim() > 1 else t for t in (*arguments[:5], mask * -10000.0, *arguments[6:])]
    torch_npu._npu_paged_attention_splitfuse(*args, out)
    torch.npu.synchronize()
    with counters.Counted() as counted:
        torch_npu._npu_paged_attention_splitfuse(*args, out)
        torch.npu.synchronize()
    assert counted.tasks == 2
    torch.testing.assert_close(out.cpu(), masked.fused(*arguments, query), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted({case.op for case in masked.ATTENTION if "latent" not in case.op}))
def test_no_sequences_are_nothing_to_do(name):
    case = next(case for case in masked.ATTENTION if case.op == name)
    schema = operator(case)._schema
    args, kwargs = on_card(case, torch.float32)
    given = {argument.name: value for argument, value in zip(schema.arguments, args)} | kwargs
    for token in ("query", "out", "block_table"):
        given |= {token: given[token][:0]} if token in given else {}
    for length in ("seq_len", "context_lens"):
        given |= {length: given[length][:0]} if length in given else {}
    with counters.Counted() as counted:
        operator(case)(**given)
        torch.npu.synchronize()
    assert counted.tasks == 0


@pytest.mark.parametrize("name", sorted({case.op for case in masked.CASES}))
def test_tensors_without_numbers(name):
    """Meta tensors and fake ones, whose lengths nobody knows: the results are written in place."""
    case = next(case for case in masked.CASES if case.op == name)
    tree = tree_map_only(torch.Tensor, lambda t: masked.encoded(case, t, torch.float32), (case.args, case.kwargs))
    args, kwargs = to("meta", tree)
    operator(case)(*args, **kwargs)
    mode = FakeTensorMode()
    args, kwargs = tree_map_only(torch.Tensor, mode.from_tensor, to("npu", tree))
    with mode:
        operator(case)(*args, **kwargs)


def test_compiled_attention_is_that_of_eager():
    args, _ = on_card(CASES["_npu_flash_attention-two"], HALF)

    def layer(query, key, value, mask, lengths):
        out = torch.empty_like(query)
        torch_npu._npu_flash_attention(query * 2, key, value, mask, lengths, 0.3, 4, 2, out)
        return (out + 1).relu() * 3

    assert torch.equal(torch.compile(layer)(*args[:5]), layer(*args[:5]))


@pytest.mark.parametrize("name", ["_npu_flash_attention-two", "_npu_flash_attention_qlens-ragged", "_npu_paged_attention_splitfuse-ragged",
                                  "_npu_paged_attention_splitfuse_v2-ragged", "_npu_paged_attention_mla-grouped"])
def test_replays_read_what_the_query_holds_then(name):
    case = CASES[name]
    args, kwargs = on_card(case, HALF)
    out = kwargs["out"] if kwargs else args[case.written[0]]
    operator(case)(*args, **kwargs)
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        operator(case)(*args, **kwargs)
    args[0].mul_(0.5)
    graph.replay()
    replayed = out.clone()
    operator(case)(*args, **kwargs)
    assert torch.equal(replayed, out) and replayed.any()


def changed(name, error, message, dtype=torch.float32, **changes):
    return pytest.param(name, changes, error, message, dtype, id=f"{name}, {message}")


REFUSED = [
    changed("_npu_flash_attention-two", ValueError, "mask is torch.int8, expected the type of query",
            mask=torch.zeros(3, 3, dtype=torch.int8)),
    changed("_npu_flash_attention-two", ValueError, "mask has the shape .2, 2., expected at least 3 rows", mask=torch.zeros(2, 2)),
    changed("_npu_flash_attention-two", ValueError, "mask is of 3 sequences, expected 1 or 2", mask=torch.zeros(3, 3, 3)),
    changed("_npu_flash_attention-two", ValueError, "mask has the shape .2, 1, 3, 3., expected .rows, columns. or",
            mask=torch.zeros(2, 1, 3, 3)),
    changed("_npu_flash_attention-two", ValueError, "seq_len adds up to 9 tokens, more than the 5", seq_len=masked.ints(4, 5)),
    changed("_npu_flash_attention-two", ValueError, "seq_len has the negative length -1", seq_len=masked.ints(4, -1)),
    changed("_npu_flash_attention-two", ValueError, "seq_len has 2 dimensions", seq_len=masked.ints(4, 1)[None]),
    changed("_npu_flash_attention-two", ValueError, "query has the shape .5, 4, 8., expected .tokens, 3 heads, size.", num_heads=3),
    changed("_npu_flash_attention-two", ValueError, "key has the shape", num_kv_heads=4),
    changed("_npu_flash_attention_v2.out-each head", NotImplementedError, "does not support slopes, mask_type",
            slopes=torch.ones(4), mask_type=4),
    changed("_npu_flash_attention_v2.out-each head", NotImplementedError, "does not support mask_None", mask=None),
    changed("_npu_flash_attention_v3-two", NotImplementedError, "_npu_flash_attention_v3 does not support mask_type", mask_type=1),
    changed("_npu_flash_attention_v3-two", ValueError, "mask has 3 rows and 4 columns", mask=torch.zeros(3, 4)),
    changed("_npu_flash_attention_prefix_v2.out-ragged", NotImplementedError, "does not support kernel_type, mask_type",
            kernel_type=5, mask_type=4),
    changed("_npu_flash_attention_qlens-ragged", ValueError, "context_lens has 1 lengths, expected 3", context_lens=masked.ints(4)),
    changed("_npu_flash_attention_qlens-ragged", ValueError, "key_cache has the shape", key_cache=torch.zeros(4, 4, 3, 8)),
    changed("_npu_flash_attention_qlens-ragged", ValueError, "value_cache has the shape", value_cache=torch.zeros(4, 4, 2, 9)),
    changed("_npu_paged_attention_splitfuse-ragged", ValueError, "mask has the shape .7, 8., expected at least 8 rows",
            mask=torch.zeros(7, 8)),
    changed("_npu_paged_attention_splitfuse_v2-ragged", ValueError, "mask has the shape .128, 128., expected .2048, 2048.",
            mask=torch.zeros(128, 128)),
    changed("_npu_paged_attention_splitfuse_v2-ragged", NotImplementedError, "does not support mask_type", mask_type=3),
    changed("_npu_paged_attention_mla-grouped", ValueError, "mla_vheadsize is 13, expected 1 to the 12", mla_vheadsize=13),
    changed("_npu_paged_attention_mla-grouped", ValueError, "key_cache has the shape", num_kv_heads=3),
    changed("npu_multi_head_latent_attention-grouped", NotImplementedError, "does not support mask, calc_type", mask=torch.zeros(2, 8),
            calc_type="calc_type_spec"),
    changed("npu_multi_head_latent_attention-grouped", NotImplementedError, "does not support cache_mode", cache_mode="int8_nzcache"),
    changed("npu_multi_head_latent_attention-grouped", ValueError, "context_lens has 1 lengths, expected 2", context_lens=[3]),
    changed("npu_multi_head_latent_attention-grouped", ValueError, "q_rope has the shape", q_rope=torch.zeros(2, 3, 6)),
    changed("npu_multi_head_latent_attention-grouped", ValueError, "k_rope has the shape", k_rope=torch.zeros(4, 4, 2, 5)),
    changed("npu_ring_mla-first", ValueError, "mask_type is 'triu', expected 'no_mask' or 'mask_type_triu'", mask_type="triu"),
    changed("npu_ring_mla-first", ValueError, "calc_type is 'ring', expected", calc_type="ring"),
    changed("npu_ring_mla-first", ValueError, "pre_out and prev_lse are needed", calc_type="calc_type_default"),
    changed("npu_ring_mla-first", ValueError, "k_rope is torch.float32 of the shape .6, 4, 5., expected torch.float32 of .6, 4, 4.",
            k_rope=torch.zeros(6, 4, 5)),
    changed("npu_ring_mla-first", ValueError, "value is torch.float16", value=torch.zeros(6, 4, 8, dtype=HALF)),
    changed("npu_ring_mla-first", ValueError, "seqlen adds up to 7 queries, more than the 6", seqlen=masked.ints(3, 4)),
    changed("npu_ring_mla-joined", ValueError, "seqlen adds up to 6 keys, more than the 5", seqlen=torch.tensor([[2, 3], [4, 2]])),
    changed("npu_ring_mla-joined", ValueError, "prev_lse is torch.float32 of the shape .5, 4., expected", prev_lse=torch.zeros(5, 4)),
    changed("npu_ring_mla-joined", ValueError, "seqlen has the shape .3, 2.", seqlen=torch.ones(3, 2, dtype=torch.int32)),
    changed("npu_ring_mla-joined", NotImplementedError, "if seqlen differs", mask_type="mask_type_triu"),
    changed("npu_ring_mla.out-first", ValueError, "softmax_lse is torch.float16", softmax_lse=torch.zeros(4, 6, dtype=HALF)),
    changed("_npu_matmul_add_fp32-tall", ValueError, "C is torch.float16, expected torch.float32", C=torch.zeros(3, 5, dtype=HALF)),
    changed("_npu_matmul_add_fp32-tall", ValueError, "C has the shape .5, 3., expected .3, 5.", C=torch.zeros(5, 3)),
    changed("_npu_matmul_add_fp32-tall", ValueError, "weight is torch.float16", weight=torch.zeros(64, 5, dtype=HALF)),
    changed("_npu_matmul_add_fp32-tall", ValueError, "expected as many rows", weight=torch.zeros(63, 5)),
    changed("_npu_quantize_per_tensor-one scale", ValueError, "y is torch.float32 of the shape .3, 8., expected int8", y=torch.zeros(3, 8)),
    changed("_npu_group_topk-all", ValueError, "k is 0, expected 1 to the 2 groups", k=0),
    changed("_npu_group_topk-all", ValueError, "n is 5, expected 1 to the 4 experts", n=5),
    changed("_npu_group_topk-all", ValueError, "group_num is 3, expected groups of equal size", group_num=3),
]


@pytest.mark.parametrize("name, changes, error, message, dtype", REFUSED)
def test_a_refusal_names_the_argument(name, changes, error, message, dtype):
    case = CASES[name]
    args, kwargs = on_card(case, dtype)
    given = {argument.name: value for argument, value in zip(operator(case)._schema.arguments, args)} | kwargs
    changes = {key: t.npu() if isinstance(t, torch.Tensor) and t.dtype != torch.int32 else t for key, t in changes.items()}
    with pytest.raises(error, match=message):
        operator(case)(**given | changes)
