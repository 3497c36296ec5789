"""Softmax with scale, mask, bias or dropout, and the losses built on it. A mask is True where a position is left out."""

import torch
from torch.nn.functional import cross_entropy, dropout, log_softmax

MASKED = -10000.0


def npu_scaled_masked_softmax(x, mask, scale=1, fixed_triu_mask=False):
    """softmax(scale * x) over the last dimension; fixed_triu_mask masks what lies above the diagonal, whatever `mask` holds."""
    if fixed_triu_mask:
        mask = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
    return torch.softmax((x.float() * scale).masked_fill(mask.bool(), MASKED), -1).to(x.dtype)


def npu_scaled_masked_softmax_backward(y_grad, y, mask, scale, fixed_triu_mask):
    if fixed_triu_mask:
        mask = torch.ones(y.shape[-2:], dtype=torch.bool, device=y.device).triu(1)
    probs, grad = y.float(), y_grad.float()
    inner = probs * (grad - (grad * probs).sum(-1, keepdim=True))
    return (inner.masked_fill(mask.bool(), 0.0) * scale).to(y.dtype)


def npu_masked_softmax_with_rel_pos_bias(x, atten_mask, relative_pos_bias, scale_value=1.0, inner_precision_mode=0):
    """softmax(scale * x + mask + bias): the mask is added, not tested."""
    scores = x * scale_value + relative_pos_bias
    return torch.softmax(scores if atten_mask is None else scores + atten_mask, -1)


def npu_softmax_cross_entropy_with_logits(self, labels):
    """One loss per row, for labels given as probabilities."""
    return -(labels * log_softmax(self, -1)).sum(-1)


def npu_cross_entropy_loss(input, target, weight=None, reduction="mean", ignore_index=-100, label_smoothing=0.0,
                           lse_square_scale_for_zloss=0.0, return_zloss=False):
    """(loss, log probabilities, zloss, logsumexp); the last two are empty unless return_zloss."""
    loss = cross_entropy(input, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing)
    log_prob = log_softmax(input, -1)
    if not return_zloss:
        return loss, log_prob, input.new_empty(0), input.new_empty(0)
    lse = torch.logsumexp(input, -1)
    squares = lse_square_scale_for_zloss * lse.square() * (target != ignore_index)
    zloss = {"mean": squares.mean, "sum": squares.sum, "none": lambda: squares}[reduction]()
    return loss, log_prob, zloss, lse


def npu_dropout_with_add_softmax(self, x1, alpha, prob, dim):
    """(mask, softmax(alpha * self + x1), its dropout)."""
    probs = torch.softmax(self * alpha + x1, dim)
    mask = dropout(torch.ones_like(probs), prob, training=True)
    return (mask != 0).to(torch.uint8), probs, probs * mask
