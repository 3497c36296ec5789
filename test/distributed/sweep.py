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


def attempt(world, what, function, *args):
    begin = time.monotonic()
    try:
        world.run(function, *args, timeout=1800)
        print(f"ok      {what} ({time.monotonic() - begin:.1f} s)", flush=True)
        return True
    except RankError as error:
        print(f"FAILED  {what}\n{error}", flush=True)
        return False


def sweep(ranks, environment, what, inside=lambda rank: []):
    good = True
    staged = "TORCH_NPU_HCCL_TRANSPORT" in environment or "GLOO_SOCKET_IFNAME" in environment
    with World(ranks, start_hccl, environment, inside) as world:
        good &= attempt(world, f"{what}: every type, reduction and size", collective_cases.every_dtype, ODD_SIZES)
        for name in collective_cases.CASES:
            good &= attempt(world, f"{what}: {name}", getattr(collective_cases, name))
        for model in training_cases.MODELS:
            good &= attempt(world, f"{what}: ddp {model}", training_cases.ddp, model)
            good &= attempt(world, f"{what}: fsdp2 {model}", training_cases.fsdp2, model)
        for name in training_cases.CASES:
            good &= attempt(world, f"{what}: {name}", getattr(training_cases, name))
        for dtype in collective_cases.DTYPES if staged or not environment else [torch.float32]:
            good &= attempt(world, f"{what}: 64 MB of {dtype}", collective_cases.large, dtype, LARGE)
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
            good &= sweep(ranks, {"SOFTNPU_ASYNC": "1"}, f"{ranks} ranks, asynchronous")
            good &= sweep(ranks, {"TASK_QUEUE_ENABLE": "2"}, f"{ranks} ranks, task queue")
        if "hosts" in arguments.paths and ranks <= 4:
            good &= between_hosts(ranks)
    return not good


if __name__ == "__main__":
    sys.exit(main())
