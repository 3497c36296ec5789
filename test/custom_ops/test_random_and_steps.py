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


def test_all_and_nothing_dropped():
    x = torch.tensor([1.0, torch.inf, -3.0], device="npu")
    finite = x.nan_to_num(posinf=5.0)
    for p, expected in ((1.0, [0, 0, 0]), (0.0, [1, 5, -3])):
        out, mask = npu._dropout_with_byte_mask(finite, p)
        assert out.tolist() == expected and mask.tolist() == [1 - p] * 3
        out, mask = npu._npu_dropout(finite, p)
        assert out.tolist() == expected and mask.cpu()[0].item() & 7 == int(7 * (1 - p))  # a bit of each number, the lowest first
        assert npu.npu_dropout_backward(finite, mask, p).tolist() == expected


def test_packed_masks_have_whole_blocks_of_128_bits():
    for size, count in (([1], 16), ([128], 16), ([129], 32), ([4, 64], 32)):
        assert npu.npu_dropout_gen_mask(size, 0.5, device="npu").shape == (count,)
    mask = torch.tensor([5] + [0] * 15, dtype=torch.uint8, device="npu")  # the first bit is the lowest
    assert npu.npu_dropout_do_mask(torch.arange(1.0, 7).npu().view(2, 3), mask, 0.5)[0].tolist() == [[2, 0, 6], [0, 0, 0]]


def test_dropout_of_a_softmax():
    x, bias = torch.randn(4, 8, device="npu"), torch.randn(4, 8, device="npu")
    mask, probs, dropped = npu.npu_dropout_with_add_softmax(x, bias, 0.5, 0.5, -1)
    torch.testing.assert_close(probs, torch.softmax(x * 0.5 + bias, -1))
    torch.testing.assert_close(dropped, probs * mask * 2)
    mask, probs, dropped = npu.npu_dropout_with_add_softmax(x.repeat(250, 1), bias.repeat(250, 1), 2.0, 0.25, 0)
    torch.testing.assert_close(probs, torch.softmax(x.repeat(250, 1) * 2 + bias.repeat(250, 1), 0))
    torch.testing.assert_close(dropped, probs * mask / 0.75)
    assert mask.dtype == torch.uint8 and abs(mask.float().mean().item() - 0.75) < 0.03


def test_losses_of_rows_of_several_dimensions():
    """Classes are the last one; a row is what is left."""
    x, labels = torch.randn(2, 3, 5), torch.softmax(torch.randn(2, 3, 5), -1)
    expected = torch.nn.functional.cross_entropy(x.flatten(0, 1), labels.flatten(0, 1), reduction="none").view(2, 3)
    torch.testing.assert_close(npu.npu_softmax_cross_entropy_with_logits(x.npu(), labels.npu()).cpu(), expected)
    grad, leaf = torch.randn(2, 3), x.clone().requires_grad_()
    torch.nn.functional.cross_entropy(leaf.flatten(0, 1), labels.flatten(0, 1), reduction="none").backward(grad.flatten())
    found = npu.npu_softmax_cross_entropy_with_logits_backward(grad.npu(), x.npu(), labels.npu())
    torch.testing.assert_close(found.cpu(), leaf.grad)


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


@pytest.mark.parametrize("nesterov", [False, True])
def test_adam_step_by_the_rule(nesterov):
    """With numbers that no power hides: epsilon under the correction of the root, Nesterov's direction."""
    lr, beta1, beta2, power1, power2, epsilon = 0.1, 0.6, 0.8, 0.5, 0.3, 0.25
    var, m, v, grad = (torch.tensor(numbers) for numbers in ([1.0, -2.0], [0.5, 0.25], [0.75, 0.5], [0.3, -0.7]))
    new_m, new_v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
    direction = beta1 * new_m + (1 - beta1) * grad if nesterov else new_m
    expected = var - lr * (1 - power2) ** 0.5 / (1 - power1) * direction / (new_v.sqrt() + epsilon)
    out = torch_npu.npu_apply_adam(power1, power2, lr, beta1, beta2, epsilon, grad.npu(), False, nesterov,
                                   out=tuple(t.npu() for t in (var, m, v)))
    for actual, wanted in zip(out, (expected, new_m, new_v)):
        torch.testing.assert_close(actual.cpu(), wanted)


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_adamw_step_by_the_rule(amsgrad, maximize):
    lr, decay, beta1, beta2, power1, power2, epsilon = 0.1, 0.4, 0.6, 0.8, 0.5, 0.3, 0.25
    var, m, v, grad, largest = (torch.tensor(n) for n in ([1.0, -2.0], [0.5, 0.25], [0.75, 0.5], [0.3, -0.7], [0.9, 0.1]))
    signed = -grad if maximize else grad
    new_m, new_v = beta1 * m + (1 - beta1) * signed, beta2 * v + (1 - beta2) * grad**2
    root = ((torch.maximum(largest, new_v) if amsgrad else new_v) / (1 - power2 * beta2)).sqrt() + epsilon
    expected = var * (1 - lr * decay) - lr / (1 - power1 * beta1) * new_m / root
    out = torch_npu.npu_apply_adam_w(power1, power2, lr, decay, beta1, beta2, epsilon, grad.npu(), largest.npu(), amsgrad, maximize,
                                     out=tuple(t.npu() for t in (var, m, v)))
    for actual, wanted in zip(out, (expected, new_m, new_v)):
        torch.testing.assert_close(actual.cpu(), wanted)


def test_bert_adam_step_by_the_rule():
    var, m, v, grad = (torch.tensor(numbers) for numbers in ([1.0, -2.0], [0.5, 0.25], [0.75, 0.5], [0.3, -0.7]))
    new_m, new_v = 0.6 * m + 0.4 * grad, 0.8 * v + 0.2 * grad**2
    for step_size, factor in ((None, 1.0), (0.5, 0.5)):
        out = torch_npu.npu_bert_apply_adam(0.1, 0.6, 0.8, 0.25, grad.npu(), 10.0, 10.0, 0.4, step_size, 1,
                                            out=tuple(t.npu() for t in (var, m, v)))
        for actual, wanted in zip(out, (var - 0.1 * factor * (new_m / (new_v.sqrt() + 0.25) + 0.4 * var), new_m, new_v)):
            torch.testing.assert_close(actual.cpu(), wanted)
    with pytest.raises(ValueError, match="adam_mode must be 0 or 1, not 2"):
        torch_npu.npu_bert_apply_adam(0.1, 0.6, 0.8, 0.25, grad.npu(), 1.0, 1.0, 0.4, None, 2, out=tuple(t.npu() for t in (var, m, v)))


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


def test_steps_need_all_of_their_tensors():
    one = torch.ones(1, device="npu")
    with pytest.raises(ValueError, match="shorter"):
        torch_npu.npu_apply_adam(0.9, 0.9, 0.1, 0.9, 0.9, 1e-8, one, False, False, out=(one, one))
    assert torch_npu.npu_apply_adam.__name__ == "npu_apply_adam"


def test_steps_need_their_tensors():
    with pytest.raises(RuntimeError, match=r"out=\(var, m, v\)"):
        torch_npu.npu_apply_adam(0.9, 0.9, 0.1, 0.9, 0.9, 1e-8, torch.ones(1, device="npu"), False, False)
