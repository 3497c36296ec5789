"""Dropout operators by their masks and rates, optimiser operators against torch.optim."""

import pytest
import torch

import torch_npu

npu = torch.ops.npu


def test_packed_mask_is_what_was_dropped():
    x = torch.ones(3, 50, device="npu", requires_grad=True)
    out, mask = npu._npu_dropout(x, 0.25)
    assert mask.dtype == torch.uint8 and mask.numel() == 256 // 8
    kept = out.detach() != 0
    torch.testing.assert_close(out.detach()[kept], torch.full_like(out.detach()[kept], 1 / 0.75))
    assert torch.equal(npu.npu_dropout_do_mask(x.detach(), mask, 0.25)[0], out.detach())
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())
    assert torch.equal(npu.npu_dropout_backward(torch.ones_like(x), mask, 0.25), out.detach())


def test_masks_have_the_rate_and_repeat_with_the_seed():
    torch.npu.manual_seed(3)
    mask = npu.npu_dropout_gen_mask([10000], 0.3, device="npu")
    torch.npu.manual_seed(3)
    assert torch.equal(mask, npu.npu_dropout_gen_mask([10000], 0.3, device="npu"))
    kept = npu.npu_dropout_do_mask(torch.ones(10000, device="npu"), mask, 0.3)[0].ne(0).float().mean().item()
    assert abs(kept - 0.7) < 0.02


def test_byte_masks():
    x = torch.ones(1000, device="npu")
    out, mask = npu._dropout_with_byte_mask(x, 0.5)
    assert torch.equal(out, mask.float() * 2)
    assert 400 < mask.sum().item() < 600
    assert torch.equal(npu.dropout_with_byte_mask(x, 0.5, False), x)
    assert npu.dropout_with_byte_mask(x, 0.5, True).unique().tolist() == [0, 2]


def test_dropout_of_a_softmax():
    x, bias = torch.randn(4, 8, device="npu"), torch.randn(4, 8, device="npu")
    mask, probs, dropped = npu.npu_dropout_with_add_softmax(x, bias, 0.5, 0.5, -1)
    torch.testing.assert_close(probs, torch.softmax(x * 0.5 + bias, -1))
    torch.testing.assert_close(dropped, probs * mask * 2)


def test_adam_steps():
    parameter = torch.nn.Parameter(torch.randn(6))
    var, m, v = parameter.detach().clone().npu(), torch.zeros(6, device="npu"), torch.zeros(6, device="npu")
    optimizer = torch.optim.Adam([parameter], lr=0.1)
    for step in range(1, 4):
        parameter.grad = torch.randn(6)
        optimizer.step()
        # the operator adds epsilon before the bias correction of the root, torch after it
        torch_npu.npu_apply_adam(0.9**step, 0.999**step, 0.1, 0.9, 0.999, 1e-8, parameter.grad.npu(), False, False, out=(var, m, v))
    torch.testing.assert_close(var.cpu(), parameter.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("amsgrad", [False, True])
def test_adamw_steps(amsgrad):
    parameter = torch.nn.Parameter(torch.randn(6))
    var, m, v, largest = parameter.detach().clone().npu(), *(torch.zeros(6, device="npu") for _ in range(3))
    optimizer = torch.optim.AdamW([parameter], lr=0.1, amsgrad=amsgrad)
    for step in range(3):
        parameter.grad = torch.randn(6)
        optimizer.step()
        torch_npu.npu_apply_adam_w(0.9**step, 0.999**step, 0.1, 0.01, 0.9, 0.999, 1e-8, parameter.grad.npu(), largest, amsgrad, False,
                                   out=(var, m, v))
    torch.testing.assert_close(var.cpu(), parameter.detach(), rtol=1e-4, atol=1e-5)


def test_bert_adam_step_clips():
    var, m, v = torch.ones(2, device="npu"), torch.zeros(2, device="npu"), torch.zeros(2, device="npu")
    torch_npu.npu_bert_apply_adam(0.1, 0.9, 0.99, 1e-6, torch.tensor([3.0, 4.0]).npu(), 1.0, 5.0, 0.5, out=(var, m, v))
    g = torch.tensor([0.6, 0.8])
    expected = 1 - 0.1 * (0.1 * g / ((0.01 * g * g).sqrt() + 1e-6) + 0.5)
    torch.testing.assert_close(var.cpu(), expected)


@pytest.mark.parametrize("norm, limit", [(0.5, 1.0), (5.0, 0.0), (5.0, -1.0)])
def test_bert_adam_step_does_not_clip_small_gradients_or_without_a_limit(norm, limit):
    var, m, v = torch.ones(2, device="npu"), torch.zeros(2, device="npu"), torch.zeros(2, device="npu")
    g = torch.tensor([0.6, 0.8]) * norm
    torch_npu.npu_bert_apply_adam(0.1, 0.9, 0.99, 1e-6, g.npu(), limit, norm, 0.5, out=(var, m, v))
    torch.testing.assert_close(m.cpu(), 0.1 * g)
    torch.testing.assert_close(v.cpu(), 0.01 * g * g)


def test_steps_need_their_tensors():
    with pytest.raises(RuntimeError, match=r"out=\(var, m, v\)"):
        torch_npu.npu_apply_adam(0.9, 0.9, 0.1, 0.9, 0.9, 1e-8, torch.ones(1, device="npu"), False, False)
