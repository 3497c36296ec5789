"""torch.compile beside eager on npu, training and inference. Run: python benchmarks/compile.py [--threads N] [--steps N] [NETWORK ...]

The networks of test/models as `torch.compile(model)`, default backend and options, against the same network from the same start without it.
Steps of both run in turn on the same batches, each ending with a wait; the first steps, which compile and capture, are not timed.
Losses of all steps and results of inference are compared (relative, against the largest; where rounding alone diverges, with what a tiny
change of the start makes of the eager run). Training steps contain the loss and the optimiser, which are not compiled. Nothing is
asserted; what misses its "must" is marked.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
import warnings
from pathlib import Path

import torch
from slices import table
from torch._dynamo.utils import counters

import torch_npu  # noqa: F401

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test/models"))
import transformers_zoo  # noqa: E402
import zoo  # noqa: E402
from network import BATCHES, Network, Training  # noqa: E402

WARM_UP = 3 * BATCHES
RELATIVE, PERTURBATION = 1e-4, 1e-6
MUST, WORST = 0.85, 1.02
clock = time.perf_counter


def compile_model(network: Network, training: Training) -> None:
    if callable(network.loss):
        training.model = torch.compile(training.model)
    else:
        for name in network.loss:
            setattr(training.model, name, torch.compile(training.model.get_submodule(name)))


def deviation(one: list[float], other: list[float]) -> float:
    return max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(one, other, strict=True))


def infer(network: Network, training: Training) -> list[float]:
    """One pass over each batch; the losses."""
    losses = [network.loss] if callable(network.loss) else list(network.loss.values())
    with torch.no_grad():
        return [loss(training.model, batch).item() for batch in training.on_card for loss in losses]


def seconds(function) -> float:
    start = clock()
    function()
    torch.npu.synchronize()
    return clock() - start


def ratio_of(pairs: list[tuple[float, float]]) -> tuple[float, float, float]:
    compiled, eager = (statistics.median(column) for column in zip(*pairs, strict=True))
    return compiled * 1e3, eager * 1e3, statistics.median(a / b for a, b in pairs)


def measure(network: Network, steps: int) -> dict:
    torch._dynamo.reset()
    counters.clear()
    compiled, eager = Training(network, "npu"), Training(network, "npu")
    compile_model(network, compiled)
    start = time.perf_counter()
    compiled.step()
    compile_time = time.perf_counter() - start
    eager.step()
    for _ in range(WARM_UP):
        compiled.step()
        eager.step()
    pairs = []
    for _ in range(steps):
        pairs.append((seconds(compiled.step), seconds(eager.step)))
    row = {"network": network.name, "training": ratio_of(pairs), "deviation": deviation(compiled.losses, eager.losses)}
    limit = RELATIVE
    if row["deviation"] > RELATIVE:
        shaken = Training(network, "npu", perturbation=PERTURBATION)
        for _ in eager.losses:
            shaken.step()
        limit = max(RELATIVE, deviation(shaken.losses, eager.losses))
    row["equal"] = row["deviation"] <= limit

    for training in (compiled, eager):
        training.model.eval()
        training.on_card = [tuple(t.npu() for t in batch) for batch in training.batches]
    for one, other in zip(eager.model.state_dict().values(), compiled.model.state_dict().values(), strict=True):
        one.copy_(other)
    for _ in range(3):
        difference = deviation(infer(network, compiled), infer(network, eager))
    row["equal"] = row["equal"] and difference <= RELATIVE
    row["inference"] = ratio_of([(seconds(lambda: infer(network, compiled)), seconds(lambda: infer(network, eager))) for _ in range(steps)])
    row["compile"] = compile_time
    npu = counters["npu"]
    row["graphs"], row["breaks"] = npu["graphs"] + npu["small graphs"], sum(counters["graph_break"].values())
    row["captures"] = npu["captures"]
    row["fused"] = ", ".join(f"{name.removeprefix('fused ')} {count}" for name, count in npu.items() if name.startswith("fused ")) or "-"
    return row


def mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--cpu-time", action="store_true", help="of the calling thread, for a busy machine, with one thread")
    parser.add_argument("networks", nargs="*")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    global clock
    if options.cpu_time:
        clock = time.thread_time
    networks = [n for n in zoo.NETWORKS + transformers_zoo.NETWORKS if not options.networks or n.name in options.networks]
    print(f"{len(networks)} networks, threads {options.threads}, task queue level {torch.npu.get_task_queue_enable()}, ms per step")
    rows = []
    for network in networks:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows.append(measure(network, options.steps))
        print(f"  {network.name}: {rows[-1]['training'][2]:.2f} {rows[-1]['inference'][2]:.2f}", file=sys.stderr, flush=True)
    cells = []
    for row in rows:
        worst = max(row["training"][2], row["inference"][2])
        cells.append((row["network"], "yes" if row["equal"] else "NO", *(f"{t:.2f}" for t in row["training"]),
                      *(f"{t:.2f}" for t in row["inference"]), row["graphs"], row["breaks"], row["captures"], f"{row['compile']:.1f}",
                      row["fused"], "" if worst <= WORST and row["equal"] else "MISSED"))
    print(table(cells, ("network", "equal", "compiled", "eager", "ratio", "inference", "eager", "ratio", "graphs", "breaks", "captures",
                        "compile s", "fused", "")))
    for kind in ("training", "inference"):
        ratios = [row[kind][2] for row in rows]
        print(f"{kind}: geometric mean compiled : eager {mean(ratios):.3f}, must {MUST}, {'met' if mean(ratios) <= MUST else 'MISSED'}; "
              f"largest {max(ratios):.2f}, must {WORST}, {'met' if max(ratios) <= WORST else 'MISSED'}")


if __name__ == "__main__":
    main()
