"""Operators that write their arguments and return nothing, other memory layouts of a cache, and what is refused."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
import cases_cache as cache  # noqa: E402
import cases_inference as inference  # noqa: E402
from test_custom_ops import to  # noqa: E402

npu = torch.ops.npu


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("mode, shape", [("Norm", cache.NORM), ("PA_NZ", cache.FRACTAL)])
def test_tokens_go_to_their_slots_of_a_paged_cache(mode, shape, strided):
    caches = [torch.zeros(*shape, 2).npu()[..., 0] if strided else torch.zeros(shape).npu() for _ in range(2)]
    npu.npu_scatter_pa_kv_cache(*to("npu", (cache.TOKENS, cache.VALUES)), *caches, cache.SLOTS.npu(), cache_mode=mode)
    for written, tokens in zip(caches, (cache.TOKENS, cache.VALUES)):
        assert torch.equal(written.cpu(), cache.at_slots(torch.zeros(shape), tokens, cache.SLOTS, mode))


def test_lists_are_written_in_place():
    tensors = to("npu", cache.LIST)
    updates = torch.randn(2, 3, 2, 4)
    npu.npu_scatter_list_(tensors, torch.tensor([1, 4]).npu(), updates.npu())
    for actual, expected in zip(tensors, cache.listed(cache.LIST, torch.tensor([1, 4]), updates)):
        assert torch.equal(actual.cpu(), expected)


def test_tokens_are_gathered_into_given_tensors():
    arguments = to("npu", cache.GATHER)
    npu.npu_gather_pa_kv_cache(*arguments)
    for actual, expected in zip(arguments[4:], cache.pages(*cache.GATHER)):
        assert torch.equal(actual.cpu(), expected)


def test_rows_that_no_sequence_fills_stay():
    arguments = list(to("npu", cache.GATHER))
    arguments[3] = torch.tensor([4, 1], dtype=torch.int32).npu()
    npu.npu_gather_pa_kv_cache(*arguments)
    assert (arguments[4][5:] == 7).all() and (arguments[4][:5] != 7).any()


@pytest.mark.parametrize("dtype, size", [(torch.float32, 16), (torch.int8, 32)])
@pytest.mark.parametrize("mode", ["PA_NZ", "PA_BLK_NZ"])
def test_normed_keys_go_into_a_fractal_cache(mode, dtype, size):
    kv, gamma = torch.randn(2, 1, 4, 2 * size), torch.randn(size)
    cos, sin = torch.randn(2, 1, 4, size), torch.randn(2, 1, 4, size)
    index = torch.tensor([7, 2, -1, 0, 4, 9, 10, 8]) if mode == "PA_NZ" else torch.tensor([3, 0, -1, 9])
    scale = None if dtype == torch.float32 else torch.full((size,), 20.0)
    caches = [torch.zeros(4, 3, 1, size, dtype=dtype).npu() for _ in range(2)]
    npu.npu_kv_rmsnorm_rope_cache_v2(
        *to("npu", (kv, gamma, cos, sin, index)), *caches, **to("npu", {"k_rope_scale": scale, "c_kv_scale": scale}), cache_mode=mode
    )
    y = cache.rms(kv[..., :size], gamma, 1e-5)[0]
    k = torch.cat([kv[..., size::2], kv[..., size + 1 :: 2]], -1)
    for written, values in zip(caches, (k * cos + cache.rotate_half(k) * sin, y)):
        expected = torch.zeros(4, size // (16 if scale is None else 32), 3, 16 if scale is None else 32, dtype=dtype)
        stored = values if scale is None else (values * scale).round().clamp(-128, 127).to(dtype)
        for b in range(2):
            for s in range(4):
                slot = int(index[4 * b + s]) if mode == "PA_NZ" else int(index[2 * b + s // 3]) // 3 * 3 + s % 3
                if (index[4 * b + s] if mode == "PA_NZ" else index[2 * b + s // 3]) >= 0:
                    expected[slot // 3, :, slot % 3] = stored[b, 0, s].view(expected.shape[1], -1)
        torch.testing.assert_close(written.cpu().view_as(expected), expected, rtol=1e-4, atol=1e-5 if scale is None else 1)


def test_latent_keys_go_into_a_fractal_cache():
    x, dq, uq, uk, dkv, cos, sin = (
        torch.randn(*shape).npu() for shape in ((4, 12), (12, 6), (6, 3 * 24), (3, 8, 32), (12, 48), (4, 16), (4, 16))
    )
    weights = (x, dq, uq, uk, dkv, torch.ones(6).npu(), torch.ones(32).npu(), sin, cos)
    index = torch.tensor([5, 0, 11, 2]).npu()
    plain, fractal = ([torch.zeros(4, 3, 1, 32).npu(), torch.zeros(4, 3, 1, 16).npu()] for _ in range(2))
    npu.npu_mla_prolog_v3(*weights, *plain, cache_index=index)
    npu.npu_mla_prolog_v3(*weights, *fractal, cache_index=index, cache_mode="PA_NZ")
    for a, b in zip(plain, fractal):
        assert a.any() and torch.equal(a.view(4, 3, -1, 16).transpose(1, 2), b.view(4, -1, 3, 16))


def test_out_is_an_overload_of_the_package_function():
    import torch_npu

    arguments = to("npu", (inference.Q, inference.K, inference.V))
    options = {"num_heads": 4, "num_key_value_heads": 2, "input_layout": "BNSD"}
    expected, _ = torch_npu.npu_fused_infer_attention_score(*arguments, **options)
    out = [torch.empty_like(expected), torch.empty(0, device="npu")]
    workspace = torch_npu._npu_fused_infer_attention_score_get_max_workspace(*arguments, **options)
    torch_npu.npu_fused_infer_attention_score.out(*arguments, **options, workspace=workspace, out=out)
    assert torch.equal(out[0], expected)


def test_query_and_caches_are_written():
    arguments = to("npu", cache.QKV)
    plain = npu.npu_qkv_rms_norm_rope_cache(*arguments)
    assert [t.shape for t in plain] == [()] * 3
    for actual, expected in zip(arguments[6:9], cache.joined(*cache.QKV)[3:]):
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_sequences_that_end_before_the_end_of_their_rows():
    q, k, v = (torch.randn(2, 4, n, 8) for n in (5, 7, 7))
    lengths, kv_lengths = [3, 2], [4, 6]
    out, _ = npu.npu_fused_infer_attention_score(
        *to("npu", (q, k, v)),
        num_heads=4,
        input_layout="BNSD",
        actual_seq_lengths=lengths,
        actual_seq_lengths_kv=kv_lengths,
        query_padding_size=torch.tensor([1]).npu(),
        kv_padding_size=torch.tensor([1]).npu(),
    )
    for b, (n, m) in enumerate(zip(lengths, kv_lengths)):
        begin, first = 5 - 1 - n, 7 - 1 - m
        expected, _ = inference.attend(
            q[b, :, begin : begin + n], k[b, :, first : first + m], v[b, :, first : first + m], 1.0, torch.ones(n, m)
        )
        torch.testing.assert_close(out[b, :, begin : begin + n].cpu(), expected, rtol=1e-4, atol=1e-5)
        assert not out[b, :, :begin].any() and not out[b, :, begin + n :].any()


def test_long_rows_are_computed_in_pieces():
    q, k, v = (torch.randn(1, 8, 1500, 4) for _ in range(3))
    out, lse = npu.npu_fused_infer_attention_score(
        *to("npu", (q, k, v)), num_heads=8, input_layout="BNSD", sparse_mode=3, softmax_lse_flag=True, atten_mask=inference.TRIANGLE.npu()
    )
    torch.testing.assert_close(
        out.cpu(), torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0), rtol=1e-4, atol=1e-5
    )
    scores = (q @ k.transpose(-1, -2)).masked_fill(torch.ones(1500, 1500).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(lse.cpu(), scores.logsumexp(-1, keepdim=True), rtol=1e-4, atol=1e-5)


def test_no_keys_give_zeros():
    q, k = torch.randn(2, 4, 3, 8).npu(), torch.empty(2, 4, 0, 8).npu()
    out, _ = npu.npu_fused_infer_attention_score(q, k, k, num_heads=4, input_layout="BNSD")
    assert out.shape == q.shape and not out.any()


HEADS = {"num_heads": 4, "num_key_value_heads": 2}


@pytest.mark.parametrize("arguments, options, message", [
    ((inference.Q, inference.K, inference.V), {"input_layout": "SBH"}, 'input_layout is "SBH", expected one of BSH'),
    ((inference.Q, inference.K, inference.V), {"input_layout": "TND"}, "query has 4 dimensions, expected 3"),
    ((inference.ROWS, inference.ROW_K, inference.ROW_V), {"input_layout": "TND"}, "TND needs the ends of the sequences"),
    ((inference.Q, inference.PAGES, inference.PAGES_V), {"input_layout": "BNSD", "block_table": inference.TABLE, "block_size": 4},
     "a paged cache needs the length of each sequence"),
    ((inference.Q, inference.K, inference.V), {"input_layout": "BNSD", "num_key_value_heads": 3}, "do not divide into 3"),
])  # fmt: skip
def test_wrong_arguments_are_refused_with_and_without_a_card(arguments, options, message):
    for device in ("npu", "meta"):
        with pytest.raises(RuntimeError, match=message):
            npu.npu_fused_infer_attention_score(*to(device, arguments), **to(device, {**HEADS, **options}))


@pytest.mark.parametrize("options, message", [
    ({"actual_seq_lengths_kv": [8, 1]}, "more than there are tokens"),
    ({"actual_seq_lengths_kv": [1, 1, -1][1:]}, "negative"),
    ({"sparse_mode": 3}, "sparse_mode 1 to 4 needs atten_mask"),
    ({"sparse_mode": 9, "atten_mask": inference.MASK}, "sparse_mode"),
    ({"dequant_scale1": torch.ones(1)}, "dequant_scale1"),
    ({"pse_shift": torch.ones(1, 4, 5, 6)}, "pse_shift' has fewer"),
    ({"key_antiquant_scale": torch.ones(3), "value_antiquant_scale": torch.ones(3)}, "key_antiquant_scale' has not the shape of mode 0"),
    ({"query_rope": torch.ones(2, 4, 5, 4)}, "come together"),
    ({"atten_mask": inference.MASK[..., :3]}, "atten_mask' has fewer"),
])  # fmt: skip
def test_the_device_refuses(options, message):
    with pytest.raises(RuntimeError, match=message):
        npu.npu_fused_infer_attention_score(
            *to("npu", (inference.Q, inference.K, inference.V)), input_layout="BNSD", **HEADS, **to("npu", options)
        )
        torch.npu.synchronize()  # the queue may run phase one later


def test_arguments_without_a_meaning_are_refused_by_name():
    with pytest.raises(NotImplementedError, match="npu_prompt_flash_attention does not support padding_mask"):
        npu.npu_prompt_flash_attention(
            *to("npu", (inference.Q, inference.K, inference.V)), padding_mask=inference.MASK.npu(), input_layout="BNSD", **HEADS
        )
    with pytest.raises(NotImplementedError, match="npu_fused_infer_attention_score_v2 does not support query_dtype"):
        npu.npu_fused_infer_attention_score_v2(
            *to("npu", (inference.Q, inference.K, inference.V)), num_query_heads=4, input_layout="BNSD", query_dtype=1
        )
    with pytest.raises(RuntimeError, match='cache_mode is "NZ", expected one of "Norm", "PA_NZ"'):
        npu.npu_scatter_pa_kv_cache(
            *to("npu", (cache.TOKENS, cache.VALUES, torch.zeros(cache.NORM), torch.zeros(cache.NORM), cache.SLOTS)), cache_mode="NZ"
        )


@pytest.mark.parametrize("name", ["npu_fused_infer_attention_score", "npu_fused_infer_attention_score_v2"])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_attention_refuses_queries_of_float8(name, dtype):
    """What they mean is not published: the result would be float8 as well, without a scale."""
    query, key, value = (t.to(dtype) for t in to("npu", (inference.Q, inference.K, inference.V)))
    heads = {"num_heads": 4} if name.endswith("score") else {"num_query_heads": 4}
    with pytest.raises(NotImplementedError, match=f"{name} does not support a query of Float8_"):
        getattr(npu, name)(query, key, value, input_layout="BNSD", **heads)
