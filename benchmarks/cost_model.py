#!/usr/bin/env python3
"""The cost model of docs/distributed.md: fitted to measurements on this machine, and its prediction for many cards.

Usage: collectives.py > lines.json; cost_model.py lines.json [--inside ALPHA_US GB_PER_S] [--between ALPHA_US GB_PER_S]. Prints
two Markdown tables: measured and modelled time of each collective for each number of ranks, and the modelled time of
all_reduce on 8 to 8,192 cards, 8 to a server, with the given links.
"""

import argparse
import json
import math
import statistics

CARDS = (8, 64, 512, 8192)


def traffic(operation, ranks, size):
    """Bytes that go through the host's memory. `size`: of a tensor in all_reduce, of the whole one in the others."""
    return {"all_reduce": 2 * ranks, "all_gather": 1 + ranks, "reduce_scatter": 1 + ranks}[operation] * size


def fit(lines):
    """alpha of each number of ranks, from the smallest size; beta of each collective, from all sizes that leave the caches."""
    smallest = min(line["bytes"] for line in lines)
    alpha = {
        ranks: statistics.median(line["hccl_us"] * 1e-6 for line in lines if line["ranks"] == ranks and line["bytes"] == smallest)
        for ranks in {line["ranks"] for line in lines}
    }
    beta = {}
    for operation in {line["operation"] for line in lines}:
        large = [line for line in lines if line["operation"] == operation and line["bytes"] >= 16 << 20]
        rates = [
            traffic(operation, line["ranks"], line["bytes"]) / (line["hccl_us"] * 1e-6 - alpha[line["ranks"]]) for line in large
        ]
        beta[operation] = math.exp(statistics.mean(math.log(rate) for rate in rates))
    return alpha, beta


def one_host(lines):
    alpha, beta = fit(lines)
    print("| collective | ranks | bytes | measured, us | modelled, us | measured : modelled |")
    print("| --- | --- | --- | --- | --- | --- |")
    for line in lines:
        operation, ranks, size = line["operation"], line["ranks"], line["bytes"]
        modelled = (alpha[ranks] + traffic(operation, ranks, size) / beta[operation]) * 1e6
        ratio = line["hccl_us"] / modelled
        print(f"| {operation} | {ranks} | {size:,} | {line['hccl_us']:,.0f} | {modelled:,.0f} | {ratio:.2f} |")
    print("\nalpha: " + ", ".join(f"{alpha[ranks] * 1e6:.0f} us with {ranks} ranks" for ranks in sorted(alpha)))
    print("beta: " + ", ".join(f"{beta[name] / 1e9:.1f} GB/s in {name}" for name in sorted(beta)))


def ring(ranks, size, alpha, beta):
    """reduce_scatter or all_gather on `ranks` cards in a ring; an all_reduce is both."""
    return (ranks - 1) * alpha + (ranks - 1) / ranks * size / beta


def halving(ranks, size, alpha, beta):
    """The same by halving and doubling: as many bytes, log N steps."""
    return math.log2(ranks) * alpha + (ranks - 1) / ranks * size / beta


def all_reduce(cards, size, inside, between, algorithm):
    """Inside servers of 8 first, an eighth between servers, inside again."""
    local = min(cards, 8)
    return 2 * ring(local, size, *inside) + 2 * algorithm(cards // local, size / local, *between)


def many_cards(inside, between):
    sizes = {"1 MB": 1 << 20, "25 MB": 25 << 20, "64 MB": 64 << 20}
    print("| cards | " + " | ".join(f"{name}, ring between servers | halving and doubling" for name in sizes) + " |")
    print("| --- |" + " --- |" * 2 * len(sizes))
    for cards in CARDS:
        cells = [
            f"{all_reduce(cards, size, inside, between, algorithm) * 1e3:.2f} ms"
            for size in sizes.values()
            for algorithm in (ring, halving)
        ]
        print(f"| {cards:,} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", help="output of collectives.py")
    parser.add_argument("--inside", type=float, nargs=2, default=[10, 100])
    parser.add_argument("--between", type=float, nargs=2, default=[20, 25])
    arguments = parser.parse_args()
    with open(arguments.lines) as file:
        one_host([json.loads(line) for line in file if line.startswith("{")])
    print()
    inside, between = ((alpha * 1e-6, rate * 1e9) for alpha, rate in (arguments.inside, arguments.between))
    many_cards(inside, between)


if __name__ == "__main__":
    main()
