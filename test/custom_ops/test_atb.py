"""torch.ops.atb.*, which the official plugin runs on ATB: results against plain torch, and the schemas."""

import importlib
import inspect
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

import torch_npu

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent / "ops")]
import atb_cases  # noqa: E402
import atb_masked_cases as masked  # noqa: E402
import cases_cache as cache  # noqa: E402
import cases_inference as inference  # noqa: E402
import counters  # noqa: E402
from test_custom_ops import outputs, to  # noqa: E402
from test_rows import cast, widened  # noqa: E402

from torch_npu.custom_ops.schemas import ATB  # noqa: E402

FAMILIES = {schema.partition("(")[0]: family for family, schemas in ATB.items() for schema in schemas}
OFFICIAL = {line.partition("(")[0]: line for line in (Path(__file__).parent / "official_atb_schemas.txt").read_text().splitlines()}
# Three sequences, blocks of four tokens, two heads of keys for four of queries.
QUERY, KEYS, VALUES = torch.randn(3, 4, 8), torch.randn(4, 4, 2, 8), torch.randn(4, 4, 2, 8)


@pytest.mark.parametrize("name", FAMILIES)
def test_schema(name):
    packet, _, overload = name.partition(".")
    assert str(getattr(getattr(torch.ops.atb, packet), overload or "default")._schema) == str(
        torch._C.parse_schema(OFFICIAL[f"atb::{name}"])
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_left_out_of_a_call_is_what_the_schema_says(name):
    """The dispatcher does not hand on an argument that equals its default: the function's own is the one that counts."""
    module = importlib.import_module(f"torch_npu.custom_ops.{FAMILIES[name]}")
    parameters = inspect.signature(getattr(module, name.replace(".", "_"))).parameters
    for argument in torch._C.parse_schema(OFFICIAL[f"atb::{name}"]).arguments:
        if argument.has_default_value() and argument.name in parameters:
            assert parameters[argument.name].default == argument.default_value, argument.name


@pytest.mark.parametrize("case", atb_cases.CASES, ids=str)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-4), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)], ids=str)
def test_result(case, dtype, tolerance):
    args, kwargs = cast(case.args, dtype), cast(case.kwargs, dtype)
    expected = outputs(case.reference(*widened(args), **widened(kwargs)))
    args, kwargs = to("npu", tree_map_only(torch.Tensor, lambda t: masked.encoded(case, t, dtype), (args, kwargs)))
    packet, _, overload = case.op.partition(".")
    result = getattr(getattr(torch.ops.atb, packet), overload or "default")(*args, **kwargs)
    actual = [kwargs[at] if isinstance(at, str) else args[at] for at in case.written] or outputs(result)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.cpu().float(), e.float(), rtol=tolerance, atol=tolerance)


WITH_RESULTS = [case for case in atb_cases.CASES if not case.written and "paged_cache_load" not in case.op]  # whose size is a sum


@pytest.mark.parametrize("case", {case.op: case for case in WITH_RESULTS}.values(), ids=str)
def test_fake_tensors_have_the_shapes_of_real_ones(case):
    packet, _, overload = case.op.partition(".")
    operator = getattr(getattr(torch.ops.atb, packet), overload or "default")
    args, kwargs = to("npu", tree_map_only(torch.Tensor, lambda t: masked.encoded(case, t, torch.float32), (case.args, case.kwargs)))
    real = outputs(operator(*args, **kwargs))
    mode = FakeTensorMode()
    given = tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
    with mode:
        fake = outputs(operator(*given[0], **given[1]))
    assert [(t.shape, t.dtype, t.device) for t in fake] == [(t.shape, t.dtype, t.device) for t in real]


WITHOUT_RESULTS = [case for case in atb_cases.CASES if case.written and not any(isinstance(at, str) for at in case.written)]


@pytest.mark.parametrize("case", {case.op: case for case in WITHOUT_RESULTS}.values(), ids=str)
def test_what_only_writes_does_nothing_to_fake_tensors_and_is_none_of_the_cpus(case):
    """Fake tensors have no lengths to write by, and the CPU has no such operators."""
    args = tree_map_only(torch.Tensor, lambda t: masked.encoded(case, t, torch.float32), case.args)
    mode = FakeTensorMode()
    fake = tree_map_only(torch.Tensor, mode.from_tensor, to("npu", args))
    with mode:
        assert getattr(torch.ops.atb, case.op)(*fake, **case.kwargs) is None
    with pytest.raises(NotImplementedError, match=f"'atb::{case.op}' with arguments from the 'CPU' backend"):
        getattr(torch.ops.atb, case.op)(*args, **case.kwargs)


def test_every_operator_has_six_cases():
    counts = Counter(case.op for case in atb_cases.CASES)
    assert {name: counts[name] for name in FAMILIES if counts[name] < 6} == {}


def test_names_of_the_package():
    from torch_npu.op_plugin.atb._atb_ops import _register_atb_extensions

    _register_atb_extensions()
    assert torch_npu._npu_paged_attention is torch.ops.atb._npu_paged_attention
    assert torch_npu.atb.npu_paged_cache_load is torch.ops.atb.npu_paged_cache_load
    with pytest.raises(AttributeError, match="npu_mla_preprocess"):
        torch_npu.atb.npu_mla_preprocess  # noqa: B018


def test_keys_and_values_go_to_their_slots():
    caches = [torch.zeros(cache.NORM).npu() for _ in range(2)]
    arguments = to("npu", (cache.TOKENS, cache.VALUES))
    torch_npu._npu_reshape_and_cache(
        key=arguments[0], value=arguments[1], key_cache=caches[0], value_cache=caches[1], slot_indices=cache.SLOTS.npu()
    )
    for written, tokens in zip(caches, (cache.TOKENS, cache.VALUES)):
        assert torch.equal(written.cpu(), cache.at_slots(torch.zeros(cache.NORM), tokens, cache.SLOTS))
    alone = torch.zeros(cache.NORM).npu()
    torch_npu._npu_reshape_and_cache_siso(arguments[0], alone, cache.SLOTS.npu())
    assert torch.equal(alone, caches[0])


def paged_reference():
    return inference.fused(
        QUERY.unsqueeze(2),
        KEYS.flatten(2),
        VALUES.flatten(2),
        num_heads=4,
        num_key_value_heads=2,
        scale=0.3,
        input_layout="BNSD",
        block_table=inference.TABLE,
        actual_seq_lengths_kv=inference.KV_LENGTHS,
    )[0].squeeze(2)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)], ids=str)
def test_paged_attention_in_one_launch(dtype, tolerance):
    query, keys, values, table = (t.npu() for t in (QUERY.to(dtype), KEYS.to(dtype), VALUES.to(dtype), inference.TABLE))
    arguments = {
        "query": query,
        "key_cache": keys,
        "value_cache": values,
        "num_kv_heads": 2,
        "num_heads": 4,
        "scale_value": 0.3,
        "block_table": table,
        "context_lens": torch.tensor(inference.KV_LENGTHS, dtype=torch.int32),
        "out": torch.empty_like(query),
    }
    workspace = torch_npu._npu_paged_attention_get_workspace(**arguments)
    torch_npu._npu_paged_attention(**arguments, workspace=workspace)
    torch.npu.synchronize()
    with counters.Counted() as counted:
        torch_npu._npu_paged_attention(**arguments)
        torch.npu.synchronize()
    assert (counted.tasks, counted.d2h_copies, counted.h2d_copies) == (1, 0, 0)
    torch.testing.assert_close(arguments["out"].cpu().float(), paged_reference(), rtol=tolerance, atol=tolerance)
    flat = torch.empty_like(query).view(3, -1)
    torch_npu._npu_paged_attention(**arguments | {"query": query.view(3, -1), "out": flat})
    assert torch.equal(flat.view_as(query), arguments["out"])
    with pytest.raises(ValueError, match="out has the shape .3, 31., expected .tokens, 4 heads, size."):
        torch_npu._npu_paged_attention(**arguments | {"out": flat[:, 1:]})
    second = torch.ops.atb._npu_paged_attention_v2(
        query,
        keys,
        table,
        inference.KV_LENGTHS,
        value_cache=values,
        num_heads=4,
        num_kv_heads=2,
        scale_value=0.3,
        out=torch.empty_like(query),
    )
    assert torch.equal(second, arguments["out"])


def test_a_mask_of_paged_attention_is_refused():
    with pytest.raises(NotImplementedError, match="_npu_paged_attention_v2 does not support mask, mask_type"):
        torch.ops.atb._npu_paged_attention_v2(
            QUERY.npu(),
            KEYS.npu(),
            inference.TABLE.npu(),
            inference.KV_LENGTHS,
            value_cache=VALUES.npu(),
            mask=torch.zeros(3, 4, 1, 8).npu(),
            mask_type=2,
            num_heads=4,
            num_kv_heads=2,
            out=QUERY.npu(),
        )


@pytest.mark.parametrize("cumulative", [False, True])
def test_tokens_are_loaded_from_pages(cumulative):
    key_cache, value_cache, tables, lengths, key, value = cache.GATHER
    lengths = torch.tensor([0, 4, 9], dtype=torch.int32) if cumulative else lengths
    starts = torch.tensor([3, 0], dtype=torch.int32)
    expected = cache.pages(key_cache, value_cache, tables, lengths, key, value, seq_offset=starts, is_seq_lens_cumsum=cumulative)
    arguments = to("npu", (key_cache, value_cache, tables, lengths))
    made = torch_npu.atb.npu_paged_cache_load(*arguments, seq_starts=starts.npu(), cumsum=cumulative)
    given = to("npu", (key, value))
    torch_npu.atb.npu_paged_cache_load(*arguments, seq_starts=starts.npu(), cumsum=cumulative, key=given[0], value=given[1])
    for a, b, e in zip(made, given, expected):
        assert torch.equal(a.cpu(), e) and torch.equal(b.cpu(), e)


def test_sequences_in_a_row_see_themselves():
    q, k, v = torch.randn(5, 4, 8), torch.randn(5, 2, 8), torch.randn(5, 2, 8)
    expected = inference.fused(
        q, k, v, num_heads=4, num_key_value_heads=2, scale=0.3, input_layout="TND", actual_seq_lengths=[2, 5], actual_seq_lengths_kv=[2, 5]
    )[0]
    for operator, options in ((torch_npu._npu_flash_attention_unpad, {}), (torch_npu._npu_flash_attention_unpad_v2, {"kernel_type": 1})):
        out = torch.empty_like(q).npu()
        operator(
            query=q.npu(),
            key=k.npu(),
            value=v.npu(),
            seq_len=torch.tensor([2, 3], dtype=torch.int32),
            scale_value=0.3,
            num_heads=4,
            num_kv_heads=2,
            out=out,
            **options,
        )
        torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("halves", [True, False])
def test_positions_rotate_in_place(halves):
    positions, query, key, angles = torch.tensor([3, 0, 5]), torch.randn(3, 16), torch.randn(3, 8), torch.randn(6, 4)
    table = torch.cat([angles.cos(), angles.sin()], -1)
    q, k = query.npu(), key.npu()
    torch_npu._npu_rotary_embedding(positions.npu(), q, k, 8, table.npu(), halves)
    for actual, before in ((q, query), (k, key)):
        heads = before.view(3, -1, 8)
        number = torch.complex(*((heads[..., :4], heads[..., 4:]) if halves else (heads[..., ::2], heads[..., 1::2])))
        turned = number * torch.polar(torch.ones(3, 1, 4), angles[positions][:, None])
        expected = torch.cat([turned.real, turned.imag], -1) if halves else torch.stack([turned.real, turned.imag], -1).flatten(-2)
        torch.testing.assert_close(actual.cpu(), expected.reshape(before.shape), rtol=1e-4, atol=1e-5)
