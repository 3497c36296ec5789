"""The cost model of docs/distributed.md: fitted to measurements on this machine, and its prediction for many cards."""

import math
import statistics

CARDS = (8, 64, 512, 8192)
INSIDE, BETWEEN = (10e-6, 100e9), (20e-6, 25e9)  # seconds and bytes a second, of links inside of a server and between servers


def traffic(operation, ranks, size):
    """Bytes that go through the host's memory. `size`: of a tensor in all_reduce, of the whole one in the others."""
    return {"all_reduce": 2 * ranks, "all_gather": 1 + ranks, "reduce_scatter": 1 + ranks}[operation] * size


def fit(lines):
    """Of output of collectives.py: alpha (seconds) of each number of ranks, from the smallest size; beta (bytes a second)
    of each collective, from all sizes that leave the caches, or the largest."""
    sizes = sorted({line["bytes"] for line in lines})
    alpha = {
        ranks: statistics.median(line["hccl_us"] * 1e-6 for line in lines if line["ranks"] == ranks and line["bytes"] == sizes[0])
        for ranks in {line["ranks"] for line in lines}
    }
    beta = {}
    for operation in {line["operation"] for line in lines}:
        large = [line for line in lines if line["operation"] == operation and line["bytes"] >= min(16 << 20, sizes[-1])]
        rates = [
            traffic(operation, line["ranks"], line["bytes"]) / max(line["hccl_us"] * 1e-6 - alpha[line["ranks"]], 1e-9)
            for line in large
        ]
        beta[operation] = math.exp(statistics.mean(math.log(rate) for rate in rates))
    return alpha, beta


def ring(ranks, size, alpha, beta):
    """reduce_scatter or all_gather on `ranks` cards in a ring; an all_reduce is both."""
    return (ranks - 1) * alpha + (ranks - 1) / ranks * size / beta


def halving(ranks, size, alpha, beta):
    """The same by halving and doubling: as many bytes, log N steps."""
    return math.log2(ranks) * alpha + (ranks - 1) / ranks * size / beta


def all_reduce(cards, size, algorithm):
    """Seconds: inside servers of 8 first, an eighth between servers, inside again."""
    local = min(cards, 8)
    return 2 * ring(local, size, *INSIDE) + 2 * algorithm(cards // local, size / local, *BETWEEN)
