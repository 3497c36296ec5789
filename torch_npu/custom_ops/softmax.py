"""Softmax with dropout, and the loss of labels that are probabilities."""

import torch
from torch.nn.functional import dropout, log_softmax


def npu_softmax_cross_entropy_with_logits(self, labels):
    """One loss per row, for labels given as probabilities."""
    return -(labels * log_softmax(self, -1)).sum(-1)


def npu_dropout_with_add_softmax(self, x1, alpha, prob, dim):
    """(mask, softmax(alpha * self + x1), its dropout)."""
    probs = torch.softmax(self * alpha + x1, dim)
    mask = dropout(torch.ones_like(probs), prob, training=True)
    return (mask != 0).to(torch.uint8), probs, probs * mask


def npu_softmax_cross_entropy_with_logits_backward(grad, self, labels):
    """For labels whose rows add up to one."""
    return (torch.softmax(self, -1) - labels) * grad.unsqueeze(-1)


def npu_dropout_with_add_softmax_backward(grad, mask, softmax_out, alpha, prob, dim):
    """(self, x1). The official plugin returns `grad` itself for x1, which is not its gradient."""
    kept = mask.flatten()[: grad.numel()].view_as(grad).to(grad.dtype)
    scaled = grad * kept / (1.0 - prob) if prob < 1 else grad * 0.0
    d_x1 = torch.ops.aten._softmax_backward_data(scaled, softmax_out, dim, softmax_out.dtype)
    return d_x1 * alpha, d_x1
