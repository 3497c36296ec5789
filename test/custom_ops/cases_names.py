"""Sums of a batch normalisation over several cards, and a normalisation that writes its inputs."""

import torch
from cases import Case, rand

BATCH = rand(4, 3, 5)
SUMS, SQUARES, COUNTS = rand(2, 3), rand(2, 3, seed=1).square() * 9 + 9, torch.tensor([8, 12], dtype=torch.int32)


def sums(x, eps):
    dims = [d for d in range(x.dim()) if d != 1]
    return x.float().sum(dims), x.float().square().sum(dims)


def combined(x, total, squares, running_mean, running_var, momentum, eps, counts):
    n = counts.sum()
    mean = total.sum(0) / n
    return mean, (squares.sum(0) / n - mean**2 + eps).rsqrt()


def normed(x1, x2, gamma, epsilon=1e-6):
    total = x1 + x2
    rstd = (total.square().mean(-1, keepdim=True) + epsilon).rsqrt()
    return rstd, total * rstd * gamma, total


CASES = [
    Case("npu_add_rms_norm_v2_functional", (rand(1, 8), rand(1, 8, seed=2), rand(8)), normed, label="one row"),
    Case("batch_norm_reduce", (BATCH, 1e-5), sums, label="three dimensions"),
    Case("batch_norm_reduce", (rand(70, 2), 1e-5), sums, label="many rows"),
    Case("batch_norm_gather_stats_update", (BATCH, SUMS[:1], SQUARES[:1], None, None, 0.1, 1e-5, COUNTS.long()[:1]), combined,
         label="one card, int64"),
    Case("batch_norm_gather_stats_update", (rand(4, 1, 5), SUMS[:, :1], SQUARES[:, :1], torch.ones(1), torch.ones(1), 0.5, 1e-2, COUNTS),
         combined, label="one channel, running"),
]
