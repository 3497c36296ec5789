"""npu:: operators that are rows of csrc/ops/tables: every type, any strides, one launch, what torch.library asks of an operator."""

import re
import sys
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map_only

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent / "ops")]

import counters  # noqa: E402
import unknown_calls  # noqa: E402
from test_custom_ops import CASES, MORE, a_gradient, called, check_strided, gradients, operator, outputs, to  # noqa: E402

ROWS = {name.removeprefix("npu::") for name in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
        if name.startswith("npu::") and not name.startswith("npu::_fused_")}
OF_ROWS = [case for case in CASES if case.op in ROWS]
# Rounding of a result in this type, and of the sums behind it.
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2}


def cast(tree, dtype):
    if isinstance(tree, dict):  # row maxima and sums are float32 with any query
        return {name: value if name.startswith("softmax_") else cast(value, dtype) for name, value in tree.items()}
    return tree_map_only(torch.Tensor, lambda t: t.to(dtype) if t.dtype == torch.float32 else t, tree)


# Statistics among their arguments are float32, whatever the type of the rest: they have tests of their own.
WITH_STATISTICS = {"npu_ring_attention_update", "npu_sparse_flash_attention_grad", "npu_block_sparse_attention_backward",
                   "npu_sparse_lightning_indexer_grad_kl_loss", "npu_dense_lightning_indexer_grad_kl_loss", "npu_nsa_select_attention_grad",
                   "npu_fused_floyd_attention_backward", "npu_fusion_attention_v3.out"}
# Gates and states of every step are among theirs: the reference makes them again, without rounding.
WITH_STATISTICS |= {"_gru_npu_backward", "_lstm_npu_backward"}
# Small convolutions add up in their own type on softnpu, as on upstream's CPU.
WITH_STATISTICS |= {"slow_conv_dilated2d_backward", "slow_conv_transpose2d_backward"}
# Rotated numbers are rounded to the type of x before they are quantised: they have cases of these types.
WITH_STATISTICS |= {"npu_rotate_quant"}
# Packed bytes, whose number depends on the type: it has cases of these types.
WITH_STATISTICS |= {"npu_hans_encode.out", "npu_hans_decode.out"}


@pytest.mark.parametrize("case", [case for case in OF_ROWS if case.op not in WITH_STATISTICS], ids=str)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_short_floating_types_are_rounded_once(case, dtype):
    """The reference computes in float32 with the same rounded inputs."""
    args, kwargs = cast(case.args, dtype), cast(case.kwargs, dtype)
    actual = called(case, to("npu", args), to("npu", kwargs))
    expected = outputs(case.reference(*widened(args), **widened(kwargs)))
    for a, e in zip(actual, expected):
        if isinstance(e, torch.Tensor) and e.is_floating_point():
            torch.testing.assert_close(a.cpu().float(), e.float(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("case", [case for case in OF_ROWS if case.grad], ids=str)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_gradients_in_short_floating_types(case, dtype):
    """Rounded in the result, in the gradient that is given and in the one that is made."""
    args, kwargs = cast((case.args, case.kwargs), dtype)
    actual = gradients(case, operator(case.op), *to("npu", (args, kwargs)), a_gradient)
    expected = gradients(case, case.reference, *widened((args, kwargs)), a_gradient)
    for a, e in zip(actual, expected):
        torch.testing.assert_close(a.cpu().float(), e, rtol=4 * TOLERANCE[dtype], atol=4 * TOLERANCE[dtype])


def widened(tree):
    return tree_map_only(torch.Tensor, lambda t: t.float() if t.dtype in TOLERANCE else t.clone(), tree)


# The lengths of sequences come in tensors, which the host reads; row maxima and sums that are given are contiguous.
READ = {str(case) for case in OF_ROWS if "attention" in case.op and isinstance(case.kwargs.get("actual_seq_qlen"), torch.Tensor)
        and case.op.split(".")[0].endswith("_v3")}
READ |= {str(case) for case in OF_ROWS if "softmax_max" in case.kwargs and "TND" in case.args}
# Caches whose rows lie in sixteens are as the device keeps them.
IN_SIXTEENS = {str(case) for case in OF_ROWS if case.op.startswith("npu_kv_rmsnorm") and case.kwargs.get("cache_mode", "").endswith("NZ")}


@pytest.mark.parametrize("case", [case for case in OF_ROWS if str(case) not in READ | IN_SIXTEENS], ids=str)
def test_strided_inputs(case):
    check_strided(case)


# Operators of several launches.
SEVERAL = {
    "npu_apply_rotary_pos_emb": "the aclnn operator writes query and key, which are copied before",
    "npu_recurrent_gated_delta_rule_functional": "the aclnn operator writes the state, which is copied before",
    "npu_gather_sparse_index_backward": "rows are added to zeros",
    "npu_apply_adam.out": "its numbers go to the card, a tensor each",
    "npu_apply_adam_w.out": "its numbers go to the card, a tensor each",
    "npu_attn_softmax_backward_": "a product with the values, then the gradient of the softmax",
    "batch_norm_gather_stats_update": "running statistics that are absent are filled with zeros and ones",
    "npu_fusion_attention_grad_v2-rotary parts, sink": "but for the layout TND the parts are joined before and taken apart after",
}
# Tensors that are copied first, because the device changes them in place; rows that make tensors and launch nothing.
COPIES = {"scatter_update": 1, "npu_scatter_nd_update": 1, "npu_scatter_list": 2, "npu_scatter_pa_kv_cache_functional": 2,
          "npu_gather_pa_kv_cache_functional": 2, "npu_kv_rmsnorm_rope_cache_v2_functional": 2, "npu_qkv_rms_norm_rope_cache_functional": 3,
          "npu_mla_prolog_v3_functional": 2, "npu_add_quant_matmul": 1, "npu_add_quant_gmm": 1, "npu_add_rms_norm_v2_functional": 2,
          "npu_chunk_gated_delta_rule": 1}
WITHOUT_LAUNCH = {case.op for case in OF_ROWS if case.op.endswith(("_infer_output", "_get_max_workspace", "_npu_format", "_storage_size"))}
# Cases of two launches: a copy of what is written to, zeros for a gradient that is not there, or npu_trans_quant_param, whose form of a
# scale the product wants.
TWO_LAUNCHES = {"npu_add_layer_norm_backward", "npu_quant_scatter", "npu_grouped_matmul_add", "npu_quant_matmul-int8",
                "npu_quant_matmul-float16", "npu_quant_matmul-batch", "npu_quant_matmul-int4 without rows' scales",
                "npu_weight_quant_batchmatmul-quantised"}
GRADIENT_IS_THERE = {"npu_add_layer_norm_backward-sum", "npu_add_layer_norm_backward-five dimensions, sum"}


@pytest.mark.parametrize("case", [case for case in OF_ROWS if not {case.op, str(case)} & SEVERAL.keys() and str(case) not in READ], ids=str)
def test_one_launch_and_nothing_is_read_back(case):
    args, kwargs = to("npu", (case.args, case.kwargs))
    operator(case.op)(*args, **kwargs)
    torch.npu.synchronize()
    with counters.Counted() as counted:
        operator(case.op)(*args, **kwargs)
        torch.npu.synchronize()
    two = {case.op, str(case)} & TWO_LAUNCHES and str(case) not in GRADIENT_IS_THERE
    launches = 0 if case.op in WITHOUT_LAUNCH else 2 if two else 1 + COPIES.get(case.op, 0)
    assert (counted.tasks, counted.d2h_copies, counted.h2d_copies) == (launches, 0, 0)


# Return one tensor twice (both terms of a sum have the same gradient), or an argument, as the official plugin does.
RETURN_ALIASES = {"npu_add_layer_norm_backward", "_npu_moe_token_unpermute"}
# Their schemas do not tell that they write tensors, and return those.
RETURN_ALIASES |= {"npu_fused_infer_attention_score.out", "npu_fused_infer_attention_score_v2.out", "npu_kv_rmsnorm_rope_cache",
                   "npu_mla_prolog", "npu_mla_prolog_v2", "npu_fusion_attention_v3.out", "npu_fusion_attention_grad_v3.out",
                   "npu_hans_encode.out"}


@pytest.mark.parametrize("case", {case.op: case for case in reversed(OF_ROWS)}.values(), ids=str)  # the first of each operator
def test_opcheck(case):
    """Of torch.library's four checks the one of registrations knows torch's own devices only."""
    args, kwargs = to("npu", (case.args, case.kwargs))
    for i in case.grad:
        args[i].requires_grad_()
    schema = operator(case.op)._schema
    checks = ["test_faketensor"] if case.op in RETURN_ALIASES else ["test_schema", "test_faketensor"]
    # Upstream does not trace operators that return arguments; what launches nothing returns memory that nobody wrote.
    if case.op not in RETURN_ALIASES | WITHOUT_LAUNCH and not any(r.alias_info for r in schema.returns):
        checks.append("test_aot_dispatch_dynamic")
    if any(isinstance(t, torch.Tensor) and t.dtype.is_floating_point and t.dtype.itemsize == 1 for t in tree_leaves(args)):
        checks = [check for check in checks if check != "test_schema"]  # it multiplies the inputs, which upstream cannot for 8 bits
    torch.library.opcheck(operator(case.op), args, kwargs, test_utils=checks)


FOR_CANN = {name for name, *_ in unknown_calls.CASES}


@pytest.mark.parametrize("name", sorted(ROWS.difference(FOR_CANN, *(getattr(module, "ELSEWHERE", ()) for module in MORE))))
def test_every_row_has_cases(name):
    assert any(case.op == name for case in CASES)


def several_tensors(case):
    tensors = [leaf for leaf in tree_leaves((case.args, case.kwargs)) if isinstance(leaf, torch.Tensor)]
    return isinstance(case.args[0], torch.Tensor) and len(tensors) > 1


@pytest.mark.parametrize("case", {case.op: case for case in reversed(OF_ROWS) if several_tensors(case)}.values(), ids=str)
def test_a_first_tensor_on_the_cpu_is_refused(case):
    """It says where the results are made, so it must not be taken for one without memory."""
    args, kwargs = to("npu", (case.args, case.kwargs))
    with pytest.raises((RuntimeError, NotImplementedError)):
        operator(case.op)(case.args[0].clone(), *args[1:], **kwargs)


def test_forward_mode_is_refused():
    import torch.autograd.forward_ad as forward

    with forward.dual_level(), pytest.raises(NotImplementedError, match="npu_swiglu has no forward-mode derivative"):
        torch.ops.npu.npu_swiglu(forward.make_dual(torch.randn(2, 4).npu(), torch.ones(2, 4).npu()))


def test_an_operator_without_a_gradient_says_so():
    x = torch.randn(2, 8, device="npu", requires_grad=True)
    out = torch.ops.npu.npu_gelu_mul(x)
    with pytest.raises(RuntimeError, match=re.escape("npu::npu_gelu_mul")):
        out.sum().backward()


def test_gradients_need_the_tensors_as_they_were():
    x, w = torch.randn(2, 8, device="npu", requires_grad=True), torch.ones(8, device="npu")
    y, _ = torch.ops.npu.npu_rms_norm(x, w)
    w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("arguments, message", [
    ((torch.ones(2, 3),), "npu_swiglu: dimension -1 of input has length 3, expected an even one"),
    ((torch.ones(2, 4), 2), "Dimension out of range"),
])  # fmt: skip
def test_wrong_shapes_are_refused_with_and_without_a_card(arguments, message):
    for device in ("npu", "meta"):
        with pytest.raises((RuntimeError, IndexError), match=message):
            torch.ops.npu.npu_swiglu(*to(device, arguments))


def test_an_integer_result_has_no_history():
    x = torch.randn(3, device="npu", requires_grad=True)
    assert not torch.ops.npu.npu_dtype_cast(x, torch.int32).requires_grad
