"""Hyper-connections and causal convolutions: what the list of cases cannot say."""

import sys
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_map_only

sys.path.insert(0, str(Path(__file__).parent))
from cases_mhc import ALPHA, BIAS, MODES, PHI, SPECULATIVE, STATES, TOKENS, WEIGHT, X3, fused_conv, kept, pre  # noqa: E402


def npu(tree):
    return tree_map_only(torch.Tensor, lambda t: t.npu(), tree)


@pytest.mark.parametrize("args, kwargs", [*(((TOKENS, WEIGHT, STATES), kwargs) for kwargs in MODES.values()), SPECULATIVE])
def test_a_fused_convolution_keeps_the_last_tokens(args, kwargs):
    x, weight, states = npu(args)
    out = torch.ops.npu.npu_fused_causal_conv1d(x, weight, states, **npu(kwargs))
    expected, expected_states = fused_conv(*args, **kwargs)
    torch.testing.assert_close(out.cpu(), expected)
    torch.testing.assert_close(states.cpu(), expected_states)


@pytest.mark.parametrize("args, kwargs", [*(((TOKENS, WEIGHT, STATES), kwargs) for kwargs in MODES.values()), SPECULATIVE])
def test_the_second_form_writes_the_result_over_its_input(args, kwargs):
    x, weight, states = npu(args)
    torch.ops.npu.npu_fused_causal_conv1d_v2(x, weight, states, **npu(kwargs))
    expected, expected_states = fused_conv(*args, **kwargs)
    lines = kwargs.get("cache_indices")
    if lines is not None and -1 in lines:  # a sequence that is skipped stays as it is
        begin, end = kwargs["query_start_loc"][1:3]
        expected[begin:end] = args[0][begin:end]
    torch.testing.assert_close(x.cpu(), expected)
    torch.testing.assert_close(states.cpu(), expected_states)


def test_hf32_products_keep_ten_bits_behind_the_point():
    """A number that float32 has and HF32 has not: 1 + 2^-12 becomes 1."""
    x = torch.zeros(1, 4, 4)
    x[0, 0, 0] = 1 + 2**-12
    phi = torch.zeros(24, 16)
    phi[:, 0] = 1.0
    mixes = [torch.ops.npu.npu_mhc_pre(*npu((x, phi, ALPHA, BIAS)), out_flag=1, inner_precise=mode)[4].cpu() for mode in (0, 1)]
    assert mixes[0].eq(1 + 2**-12).all() and mixes[1].eq(1.0).all()


def test_what_only_the_gradient_needs_is_made_on_demand():
    assert torch.ops.npu.npu_mhc_pre(*npu((X3, PHI, ALPHA, BIAS)))[3:] == (None, None, None)
    assert torch.ops.npu.npu_mhc_sinkhorn(torch.randn(3, 4, 4).npu())[1:] == (None, None)


def test_a_gradient_without_what_it_needs_says_how_to_get_it():
    x = torch.randn(3, 4, 4, device="npu", requires_grad=True)
    with pytest.raises(RuntimeError, match="call npu_mhc_sinkhorn with out_flag=1"):
        torch.ops.npu.npu_mhc_sinkhorn(x)[0].sum().backward()
    x = X3.npu().requires_grad_()
    with pytest.raises(RuntimeError, match="call npu_mhc_pre with out_flag=1"):
        torch.ops.npu.npu_mhc_pre(x, *npu((PHI, ALPHA, BIAS)))[0].sum().backward()


def test_the_gradient_of_gamma():
    gamma = torch.randn(4, 5)
    grads = []
    for device, function in (("npu", torch.ops.npu.npu_mhc_pre), ("cpu", pre)):
        leaf = gamma.to(device, copy=True).requires_grad_()
        out = function(*(t.to(device) for t in (X3, PHI, ALPHA, BIAS)), gamma=leaf, out_flag=1)[0]
        grads.append(torch.autograd.grad(out.sum(), leaf)[0].cpu())
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("device", ["npu", "meta"])
@pytest.mark.parametrize("call, message", [
    (lambda ops, t: ops.npu_mhc_pre(t(6, 4, 5), t(23, 20), t(3), t(24)), r"npu_mhc_pre: phi has shape \[23, 20\], expected \[24, 20\]"),
    (lambda ops, t: ops.npu_mhc_pre(t(6, 4, 5), t(24, 20), t(4), t(24)), "npu_mhc_pre: alpha has 4 numbers"),
    (lambda ops, t: ops.npu_mhc_pre(t(6, 4, 5), t(24, 20), t(3), t(24), inner_precise=2), "npu_mhc_pre: inner_precise is 2"),
    (lambda ops, t: ops.npu_mhc_post(t(6, 4, 5), t(6, 4, 5), t(6, 5), t(6, 4)),
        r"npu_mhc_post: h_res has shape \[6, 4, 5\], expected \[6, 4, 4\]"),
    (lambda ops, t: ops.npu_mhc_sinkhorn(t(6, 5, 5)), "npu_mhc_sinkhorn: x has shape"),
    (lambda ops, t: ops.npu_mhc_sinkhorn(t(6, 4, 4), num_iters=0), "npu_mhc_sinkhorn: num_iters is 0, expected 1 to 100"),
    (lambda ops, t: ops.npu_masked_causal_conv1d(t(7, 2, 6), t(3, 5)),
        r"npu_masked_causal_conv1d: weight has shape \[3, 5\], expected \[width, 6\]"),
    (lambda ops, t: ops.npu_fused_causal_conv1d(t(7, 6), t(3, 6), t(4, 2, 6)), "npu_fused_causal_conv1d needs query_start_loc"),
    (lambda ops, t: ops.npu_fused_causal_conv1d(t(2, 3, 6), t(3, 6), t(4, 2, 6), activation="relu"), "activation"),
    (lambda ops, t: ops.npu_fused_causal_conv1d(t(2, 3, 6), t(3, 6), t(4, 1, 6)), "npu_fused_causal_conv1d: conv_states has shape"),
])  # fmt: skip
def test_wrong_arguments_are_refused_with_and_without_a_card(device, call, message):
    with pytest.raises(RuntimeError, match=message):
        call(torch.ops.npu, lambda *shape: torch.ones(*shape, device=device))


def test_the_sums_of_a_double_stochastic_matrix_are_one():
    y = torch.ops.npu.npu_mhc_sinkhorn(torch.randn(5, 4, 4).npu(), num_iters=100)[0].cpu()
    torch.testing.assert_close(y.sum(-1), torch.ones(5, 4), rtol=1e-3, atol=1e-3)
    assert kept(y, 2)[0].numel() == 2 * 2 * 5 * 4 * 8
