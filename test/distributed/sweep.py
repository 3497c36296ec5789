"""The large grid: `python sweep.py [RANKS...] [--paths ...]`, by default 2 4 8. Collectives x types x reductions x sizes
against gloo: through shared memory, in softnpu's and the task queue's other modes, and on the path between hosts (forced by
its variable, and between two network namespaces); then training. Prints a line for each part, ends with 1 if one failed.
"""

import argparse
import sys
import time

import collective_cases
import torch
import training_cases
from namespaces import Unavailable, two_hosts
from world import RankError, World, start_hccl

ODD_SIZES = (0, 1, 13, 70001)
LARGE = 64 << 20  # bytes


def parts(short):
    """(name, function, arguments)"""
    yield "every type, reduction and size", collective_cases.every_dtype, (ODD_SIZES,)
    for name in collective_cases.CASES:
        yield name, getattr(collective_cases, name), ()
    for model in training_cases.MODELS:
        yield f"ddp {model}", training_cases.ddp, (model,)
        yield f"fsdp2 {model}", training_cases.fsdp2, (model,)
    for name in training_cases.CASES:
        yield name, getattr(training_cases, name), ()
    for dtype in [torch.float32] if short else collective_cases.DTYPES:
        yield f"64 MB of {dtype}", collective_cases.large, (dtype, LARGE)


def sweep(ranks, environment, what, inside=lambda rank: [], short=False):
    """Runs the parts in one world; a part that fails ends it, the next one gets another."""
    good, world = True, None
    for name, function, arguments in parts(short):
        begin = time.monotonic()
        try:
            world = world or World(ranks, start_hccl, environment, inside)
            world.run(function, *arguments, timeout=600)
            print(f"ok      {what}: {name} ({time.monotonic() - begin:.1f} s)", flush=True)
        except RankError as error:
            print(f"FAILED  {what}: {name}\n{error}", flush=True)
            good = False
            if world:
                world.close()
                world = None
    if world:
        world.close()
    return good


def between_hosts(ranks):
    good = sweep(ranks, {"TORCH_NPU_HCCL_TRANSPORT": "gloo"}, f"{ranks} ranks through gloo")
    try:
        with two_hosts() as hosts:
            return good & sweep(ranks, hosts["environment"], f"{ranks} ranks in two network namespaces", hosts["inside"])
    except Unavailable as error:
        print(f"skipped {ranks} ranks in two network namespaces: {error}", flush=True)
        return good


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ranks", type=int, nargs="*", default=[2, 4, 8])
    parser.add_argument("--paths", nargs="+", choices=["memory", "modes", "hosts"], default=["memory", "modes", "hosts"])
    arguments = parser.parse_args()
    good = True
    for ranks in arguments.ranks:
        if "memory" in arguments.paths:
            good &= sweep(ranks, {}, f"{ranks} ranks")
        if "modes" in arguments.paths and ranks <= 4:
            good &= sweep(ranks, {"SOFTNPU_ASYNC": "1"}, f"{ranks} ranks, asynchronous", short=True)
            good &= sweep(ranks, {"TASK_QUEUE_ENABLE": "2"}, f"{ranks} ranks, task queue", short=True)
        if "hosts" in arguments.paths and ranks <= 4:
            good &= between_hosts(ranks)
    return not good


if __name__ == "__main__":
    sys.exit(main())
