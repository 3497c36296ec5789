"""Softmax with masks and biases, cross entropy, the narrowing of logits."""

import torch
from cases import MASK, SCORES, Case, grads, narrowed, rand
from torch.nn import functional as F

TRIANGLE = torch.ones(4, 4).triu(1).bool()
TARGETS = torch.tensor([0, 3, -100, 1])
WEIGHT = rand(5, seed=9).abs() + 0.1


def masked(x, mask, scale, fixed=False):
    return torch.softmax((x * scale).masked_fill(TRIANGLE if fixed else mask.bool(), -10000.0), -1)


def masked_gradient(grad, y, mask, scale, fixed):
    inner = y * (grad - (grad * y).sum(-1, keepdim=True))
    return inner.masked_fill(TRIANGLE if fixed else mask.bool(), 0.0) * scale


def attended(y, grad, values):
    """The gradient of softmax(x) @ values with respect to x."""
    inner = grad @ values.transpose(-1, -2)
    return y * (inner - (inner * y).sum(-1, keepdim=True))


def cross_entropy(x, target, weight=None, reduction="mean", ignore_index=-100, label_smoothing=0.0, scale=0.0, return_zloss=False):
    loss = F.cross_entropy(x, target.long(), None if weight is None else weight.to(x.dtype), ignore_index=ignore_index, reduction=reduction,
                           label_smoothing=label_smoothing)
    result = [loss if reduction == "none" else loss.view(1), F.log_softmax(x, -1)]
    if return_zloss:
        lse = torch.logsumexp(x, -1)
        squares = scale * lse.square() * (target != ignore_index)
        result += [{"mean": squares.mean, "sum": squares.sum}[reduction]().view(1) if reduction != "none" else squares, lse]
    return tuple(result)


def cross_entropy_gradient(grad, logs, *rest):
    """Logits that have these log probabilities are the log probabilities themselves."""
    defaults = (None, None, None, "mean", -100, 0.0, 0.0)[len(rest) - 1 :]
    target, weight, grad_zloss, lse, reduction, ignore_index, smoothing, scale = (*rest, *defaults)
    x = logs if lse is None else logs + lse.unsqueeze(1)

    def total(x):
        out = cross_entropy(x, target, weight, reduction, ignore_index, smoothing, scale, True)
        return (out[0] * grad).sum() + (0 if grad_zloss is None else (out[2] * grad_zloss).sum())

    return grads(total, (x,), torch.tensor(1.0))


def bits(flags):
    padded = [*flags.tolist(), *[True] * (-len(flags) % 8)]
    return torch.tensor([sum(128 >> i for i in range(8) if padded[at + i]) for at in range(0, len(padded), 8)], dtype=torch.uint8)


def max_sum(x, w, target, start, end, return_logits=False):
    logits = x @ w.t()
    largest = logits.amax(-1)
    outside = (target < start) | (target > end)
    place = torch.where(outside, 0, target - start)
    shifted = logits - largest[:, None]
    predicted = torch.where(outside, 0.0, shifted.gather(1, place.long()[:, None])[:, 0])
    return (largest, shifted.exp().sum(-1), predicted, bits(outside), place, *([logits] if return_logits else []))


def linear_gradient(grad, x, w, mask, place, label_smoothing, largest, total, softmax=None):
    """That of the sum of the losses of the tokens whose target is here, and of the others' log-sum-exp."""
    inside = torch.tensor([not mask[i // 8] >> (7 - i % 8) & 1 for i in range(len(place))])

    def loss(x, w):
        logits = x @ w.t()
        return (torch.logsumexp(logits, -1) - torch.where(inside, logits.gather(1, place.long()[:, None])[:, 0], 0.0)) * grad

    return grads(lambda *a: loss(*a).sum(), (x, w), torch.tensor(1.0))


X, W = rand(10, 4), rand(6, 4, seed=1)
VOCAB = torch.tensor([3, 9, 4, 5, 8, 2, 0, 9, 7, 3])
LOGITS = X @ W.t()
MAX_SUM = max_sum(X, W, VOCAB, 3, 8)
LOGS = F.log_softmax(rand(4, 5), -1)
LSE = torch.logsumexp(rand(4, 5, seed=6), -1)

CASES = [
    Case("npu_scaled_masked_softmax", (SCORES, MASK, 0.5), masked, grad=(0,)),
    Case("npu_scaled_masked_softmax", (SCORES, MASK.to(torch.uint8), 2), masked, grad=(0,), label="bytes"),
    Case("npu_scaled_masked_softmax", (SCORES, MASK[:1].expand(2, 3, 4, 5).contiguous()), lambda x, m: masked(x, m, 1), label="no scale"),
    Case("npu_scaled_masked_softmax", (SCORES, MASK[..., :1], 0.5), masked, grad=(0,), label="rows"),
    Case("npu_scaled_masked_softmax", (rand(2, 3, 4, 4), MASK, 0.5, True), masked, grad=(0,), label="triangle"),
    Case("npu_scaled_masked_softmax", (rand(0, 3, 4, 5), MASK[:1], 0.5), masked, label="empty"),
    Case("npu_scaled_masked_softmax", (rand(3, 2, 150, 260), MASK[:1, :, :1, :1], 0.5), masked, grad=(0,), label="blocks"),
    Case("npu_scaled_masked_softmax_backward", (rand(2, 3, 4, 5, seed=7), masked(SCORES, MASK, 0.5), MASK, 0.5, False), masked_gradient),
    Case("npu_scaled_masked_softmax_backward", (rand(2, 3, 4, 4, seed=7), masked(rand(2, 3, 4, 4), MASK, 2, True), MASK, 2, True),
         masked_gradient, label="triangle"),
    Case("npu_masked_softmax_with_rel_pos_bias", (SCORES, None, rand(1, 3, 4, 5), 0.5), lambda x, m, b, s: torch.softmax(x * s + b, -1)),
    Case("npu_masked_softmax_with_rel_pos_bias", (rand(1, 2, 3, 4, 4), rand(1, 2, 1, 4, 4), rand(1, 1, 3, 4, 4, seed=2)),
         lambda x, m, b: torch.softmax(x + m + b, -1), label="mask"),
    Case("npu_attn_softmax_", (SCORES,), lambda x: torch.softmax(x, -1), label="scores"),
    Case("npu_attn_softmax_backward_", (torch.softmax(rand(2, 4, 5), -1), rand(2, 4, 3), rand(2, 5, 3)), attended),
    Case("npu_cross_entropy_loss", (rand(4, 5), TARGETS), cross_entropy, grad=(0,)),
    *[Case("npu_cross_entropy_loss", (rand(4, 5), TARGETS.clamp(min=0), WEIGHT, reduction, 3, 0.2, 0.5, True), cross_entropy, grad=(0,),
           label=f"{reduction} weighted, of {through}", through=through) for reduction in ("mean", "sum", "none") for through in (0, 2)],
    Case("npu_cross_entropy_loss", (rand(4, 5), TARGETS.int(), None, "sum"), cross_entropy, grad=(0,), label="int32"),
    Case("npu_cross_entropy_loss_backward", (rand(1), LOGS, TARGETS), cross_entropy_gradient),
    Case("npu_cross_entropy_loss_backward", (rand(4), LOGS, TARGETS, WEIGHT, rand(4, seed=1), LSE, "none", -100, 0.1, 0.3),
         cross_entropy_gradient, label="everything"),
    Case("npu_fused_linear_online_max_sum", (X, W, VOCAB, 3, 8), max_sum),
    Case("npu_fused_linear_online_max_sum", (X, W, VOCAB.int(), 3, 8, True), max_sum, label="logits"),
    Case("npu_fused_cross_entropy_loss_with_max_sum", MAX_SUM[:3], lambda m, s, p: s.log() - p),
    Case("npu_fused_cross_entropy_loss_with_max_sum", MAX_SUM[:3],
         lambda m, s, p, vocab_parallel_logits: (s.log() - p, torch.softmax(LOGITS, -1)), {"vocab_parallel_logits": LOGITS},
         label="softmax"),
    Case("npu_fused_linear_cross_entropy_loss_with_max_sum_backward", (rand(10, seed=3), X, W, MAX_SUM[3], MAX_SUM[4], 0.0, *MAX_SUM[:2]),
         linear_gradient),
    Case("npu_fused_linear_cross_entropy_loss_with_max_sum_backward",
         (rand(10, seed=3), X, W, MAX_SUM[3], MAX_SUM[4], 0.0, None, None, torch.softmax(LOGITS, -1)), linear_gradient, label="softmax"),
    Case("npu_top_k_top_p", (rand(3, 9), torch.tensor([0.5, 0.9, 0.01]), torch.tensor([3, 9, 5])), narrowed),
    Case("npu_top_k_top_p", (rand(3, 9), None, torch.tensor([1, 2, 9])), lambda x, p, k: narrowed(x, torch.ones(3), k), label="k"),
    Case("npu_top_k_top_p", (rand(3, 9), torch.tensor([0.5, 0.9, 0.01]), None),
         lambda x, p, k: narrowed(x, p, torch.full((3,), 9)), label="p"),
]

# Cases that the official wheel refuses, or answers otherwise: see test/official/custom_ops.py.
NOT_OFFICIAL = {
    f"npu_cross_entropy_loss-{reduction} weighted, of 2 gradient": "it needs the gradient of the loss"
    for reduction in ("mean", "sum", "none")
}
