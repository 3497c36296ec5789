"""Gradients, steps and networks beyond the list of cases: lists of parameters, numbers drawn at random, tensors that are changed."""

import math
import sys
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_map_only

sys.path.insert(0, str(Path(__file__).parent))
import cases_rnn  # noqa: E402

npu = torch.ops.npu


def on_card(tree):
    return tree_map_only(torch.Tensor, lambda t: t.npu(), tree)


@pytest.mark.parametrize("gates, operator, reference", [(3, npu._gru_npu, cases_rnn.whole_gru), (4, npu._lstm_npu, cases_rnn.whole_lstm)])
@pytest.mark.parametrize("form", cases_rnn.FORMS.values(), ids=cases_rnn.FORMS)
def test_every_parameter_of_a_network_has_its_gradient(gates, operator, reference, form):
    args, kwargs = cases_rnn.of_net(gates, *form)
    found = []
    for device, function in (("npu", operator), ("cpu", reference)):
        x, hx, params, *rest = tree_map_only(torch.Tensor, lambda t: t.to(device, copy=True).requires_grad_(), args)
        out = function(x, hx, params, *rest, **kwargs)[: 2 if gates == 3 else 3]
        leaves = [x, *([hx] if gates == 3 else hx), *params]
        found.append(torch.autograd.grad(sum((t * t).sum() for t in out), leaves))
    for actual, expected in zip(*found, strict=True):
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_a_network_keeps_its_steps_for_training_only():
    args, kwargs = cases_rnn.of_net(3, *cases_rnn.FORMS["deep"], train=False)
    out = npu._gru_npu(*on_card(args), **kwargs)
    assert out[2:] == (None,) * 5
    torch.testing.assert_close(out[0].cpu(), cases_rnn.whole_gru(*args, **kwargs)[0])
    x = args[0].npu().requires_grad_()
    with pytest.raises(RuntimeError, match="train=True"):
        npu._gru_npu(x, *on_card(args[1:]), **kwargs)[0].sum().backward()
    args, kwargs = cases_rnn.of_net(4, *cases_rnn.FORMS["deep"], train=False)
    out = npu._lstm_npu(*on_card(args), **kwargs)
    assert out[3:7] == (None,) * 4 and out[7].shape == (4, 4, 3, 2) and out[9] is None


@pytest.mark.parametrize("device", ["npu", "meta"])
@pytest.mark.parametrize("change, message", [
    ({"batch_sizes": torch.ones(4, dtype=torch.long)}, "_gru_npu supports no batch_sizes"),
    ({2: lambda params: params[:3]}, "_gru_npu: params has 3 tensors, expected 4 for each of 1 layers and 1 directions"),
    ({1: lambda hx: hx[:, :2]}, r"_gru_npu: hx has shape \[1, 2, 2\], expected \[1, 3, 2\]"),
    ({0: lambda x: x[..., :4]}, "_gru_npu: tensor 0 of params has shape"),
])  # fmt: skip
def test_what_does_not_fit_a_network_is_refused(device, change, message):
    args, kwargs = cases_rnn.of_net(3, *cases_rnn.FORMS[""])
    args = [change[n](a) if n in change else a for n, a in enumerate(args)]
    kwargs |= {name: value for name, value in change.items() if isinstance(name, str)}
    with pytest.raises(RuntimeError, match=message):
        npu._gru_npu(*tree_map_only(torch.Tensor, lambda t: t.to(device), args), **kwargs)


def test_exponential_numbers_repeat_with_the_seed_and_have_the_rate():
    torch.npu.manual_seed(5)
    first = npu.npu_sim_exponential_(torch.empty(20000, device="npu"), 2.0)
    torch.npu.manual_seed(5)
    assert torch.equal(first, torch.empty(20000, device="npu").exponential_(2.0))
    assert abs(first.mean().item() - 0.5) < 0.02 and first.min().item() >= 0
    generator = torch.Generator("npu").manual_seed(7)
    one = npu.npu_sim_exponential_(torch.empty(8, device="npu"), generator=generator)
    assert torch.equal(one, torch.empty(8, device="npu").exponential_(generator=generator.manual_seed(7)))
    with pytest.raises(RuntimeError, match="npu_sim_exponential_: lambd is 0"):
        npu.npu_sim_exponential_(torch.empty(8, device="npu"), 0.0)


@pytest.mark.parametrize("bad, expected", [((), False), ((0,), True), ((2,), True)])
@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_numbers_that_are_not_finite_are_found(bad, expected, number):
    grads = [torch.zeros(3, device="npu"), torch.ones(2, 2, dtype=torch.float16, device="npu"), torch.zeros((), device="npu")]
    for place in bad:
        grads[place].fill_(number)
    assert npu._amp_foreach_non_finite_check(grads) is expected
    assert npu._amp_foreach_non_finite_check([]) is False


def test_running_statistics_follow_a_batch_that_is_spread():
    x = torch.randn(6, 3, 4)
    sums = [npu.batch_norm_reduce(part.npu(), 1e-5) for part in x.split((4, 2))]
    mean, var = torch.zeros(3).npu(), torch.ones(3).npu()
    batch_mean, invstd = npu.batch_norm_gather_stats_update(x.npu(), *(torch.stack(each) for each in zip(*sums)), mean, var, 0.1, 1e-5,
                                                            torch.tensor([16, 8]).npu())
    whole, spread = x.mean((0, 2)), x.var((0, 2), correction=0)
    tolerance = {"rtol": 1e-3, "atol": 1e-3}
    torch.testing.assert_close(batch_mean.cpu(), whole)
    torch.testing.assert_close(invstd.cpu(), (spread + 1e-5).rsqrt())
    torch.testing.assert_close(mean.cpu().float(), 0.1 * whole, **tolerance)
    torch.testing.assert_close(var.cpu().float(), 0.9 + 0.1 * spread, **tolerance)


def test_the_largest_square_is_kept_for_amsgrad():
    var, m, v, largest = (torch.full((4,), n, device="npu") for n in (1.0, 0.0, 0.5, 0.1))
    npu.npu_apply_adam_w.out(0.9, 0.99, 0.1, 0.0, 0.9, 0.5, 1e-8, torch.zeros(4, device="npu"), largest, True, False, var=var, m=m, v=v)
    torch.testing.assert_close(largest.cpu(), torch.full((4,), 0.25))
    with pytest.raises(RuntimeError, match="npu_apply_adam_w needs max_grad_norm"):
        npu.npu_apply_adam_w.out(0.9, 0.99, 0.1, 0.0, 0.9, 0.5, 1e-8, m, None, True, False, var=var, m=m, v=v)


@pytest.mark.parametrize("repeats", [torch.tensor([3]), torch.tensor(3), torch.tensor([0])])
def test_one_number_repeats_all_elements(repeats):
    x, times = torch.randn(2, 4), int(repeats)
    grad = torch.randn(2, 4 * times)
    expected = grad.view(2, 4, times).sum(-1)
    torch.testing.assert_close(npu.repeat_interleave_backward_tensor(grad.npu(), x.npu(), repeats.npu(), 1).cpu(), expected)
    torch.testing.assert_close(npu.repeat_interleave_backward_int(grad.npu(), x.npu(), times, 1).cpu(), expected)


def test_repeats_that_do_not_add_up_are_an_error():
    x, grad = torch.randn(4).npu(), torch.randn(5).npu()
    with pytest.raises(RuntimeError, match="repeats"):
        npu.repeat_interleave_backward_tensor(grad, x, torch.tensor([9, 0, 0, 0]).npu())
        torch.npu.synchronize()


def test_dropped_attention_has_the_gradient_of_its_mask():
    q, k, v = (torch.randn(2, 3, 4, 5, device="npu", requires_grad=True) for _ in range(3))
    out, probs, mask = npu.npu_fused_attention_score_fwd(q, k, v, torch.zeros(2, 1, 4, 4, device="npu"), 0.5, 0.6)
    seed = torch.randn_like(out)
    expected = torch.autograd.grad(out, (q, k, v), seed)
    for actual, each in zip(npu.npu_fused_attention_score_backward(seed, probs.detach(), q, k, v, mask, 0.5, 0.6), expected):
        torch.testing.assert_close(actual, each)
    assert 0 < mask.sum().item() < mask.numel()
    with pytest.raises(NotImplementedError, match="query_transpose"):
        npu.npu_fused_attention_score_fwd(q, k, v, torch.zeros(2, 1, 4, 4, device="npu"), 0.5, 1.0, True)


def test_multi_head_attention_returns_what_its_gradient_needs():
    args = on_card((*cases_rnn.INS, *cases_rnn.WEIGHTS[:3], cases_rnn.ATTN_MASK, cases_rnn.WEIGHTS[3], *cases_rnn.BIASES))
    leaves = [t.requires_grad_() for t in args]
    y, mask, *saved = npu.npu_multi_head_attention(*leaves, None, 2, 3, 4, 4, 0.4, True)
    again = npu.npu_multi_head_attention(*leaves, mask, 2, 3, 4, 4, 0.4, True)[0]
    torch.testing.assert_close(again, y)
    seed = torch.randn_like(y)
    q, k, v, wq, wk, wv, _, wo, bq, bk, bv, bo = leaves
    expected = torch.autograd.grad(y, (wq, wk, wv, wo, q, k, v, bq, bk, bv, bo), seed)
    actual = npu.npu_multi_head_attention_backward(q, k, v, wq, wk, wv, wo, bq, bk, bv, bo, *saved, seed, mask, 2, 3, 4, 4, 0.4, True)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.reshape(e.shape), e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("call, message", [
    (lambda t: npu._conv_depthwise2d_backward(t(1, 2, 4, 4), t(1, 2, 4, 4), t(2, 1, 3, 3), [2, 2], [1, 1], [1, 1], [1, 1], [True, True]),
        "kernel_size"),
    (lambda t: npu.npu_gather_backward(t(2), [3], 0, t(2).long(), True), "sparse_grad"),
    (lambda t: npu.npu_normalize_batch(t(2, 3, 4), t(2).int(), 2), "normalize_type is 2"),
    (lambda t: npu.npu_masked_fill_range(t(2, 3), t(2).int(), t(2).int(), t(1)), "npu_masked_fill_range: start, end and value"),
    (lambda t: npu.npu_stride_add(t(1, 16, 2), t(1, 16, 2), 1, 0, 1), "npu_stride_add: offset1 and c1_len are 1 and 1"),
    (lambda t: npu.slow_conv_dilated2d_backward(t(1, 2, 4, 4), t(1, 2, 4, 4), t(2, 2, 3, 3), [2, 2], [1, 1], [1, 1], [1, 1], [True] * 3),
     "slow_conv_dilated2d_backward: kernel_size is"),
    (lambda t: npu._npu_index_add(t(4, 3), t(2).long(), t(2, 2)), r"_npu_index_add: source has shape \[2, 2\], expected \[2, 3\]"),
    (lambda t: npu._npu_dropout(t(4), 1.5), "_npu_dropout: p is 1.5"),
    (lambda t: npu.npu_dropout_backward(t(40), t(4).byte(), 0.5), "npu_dropout_backward: mask has 4 numbers"),
    (lambda t: npu.repeat_interleave_backward_tensor(t(4), t(2, 3), t(3).long(), 0), "repeat_interleave_backward_tensor: grad has shape"),
    (lambda t: npu.batch_norm_gather_stats_update(t(2, 3), t(4, 2), t(4, 2), None, None, 0.1, 1e-5, t(4)),
        "batch_norm_gather_stats_update: mean and invstd"),
])  # fmt: skip
@pytest.mark.parametrize("device", ["npu", "meta"])
def test_wrong_arguments_are_refused_with_and_without_a_card(device, call, message):
    with pytest.raises((RuntimeError, ValueError, NotImplementedError), match=message):
        call(lambda *shape: torch.ones(*shape, device=device))
