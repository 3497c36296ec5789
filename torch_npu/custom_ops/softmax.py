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
