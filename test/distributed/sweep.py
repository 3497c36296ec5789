"""The large grid: `python sweep.py [RANKS...]`, by default 2 4 8. Collectives x types x reductions x sizes against gloo, in
softnpu's own transport in both of its modes and through gloo; then training. Prints a line for each part, ends with 1 if
one failed.
"""

import sys
import time

import collective_cases
import training_cases
from world import RankError, World, start_hccl

ODD_SIZES = (0, 1, 13, 70001)
LARGE = 16 << 20  # elements of float32: 64 MB
PARTS = ["complex_sum", "premul_sum", "coalesced", "subgroups", "objects", "async_work", "groups_on_two_streams", "functional"]
TRAINING = ["ddp_options", "ddp_no_sync", "ddp_join", "zero_optimizer", "fsdp1", "dtensor", "tensor_parallel", "pipelining"]


def attempt(world, what, function, *args):
    begin = time.monotonic()
    try:
        world.run(function, *args, timeout=900)
        print(f"ok      {what} ({time.monotonic() - begin:.1f} s)", flush=True)
        return True
    except RankError as error:
        print(f"FAILED  {what}\n{error}", flush=True)
        return False


def sweep(ranks, environment, what):
    good = True
    with World(ranks, start_hccl, environment) as world:
        good &= attempt(world, f"{what}: every type, reduction and size", collective_cases.every_dtype, ODD_SIZES)
        good &= attempt(world, f"{what}: 64 MB", collective_cases.large, LARGE)
        for name in PARTS:
            good &= attempt(world, f"{what}: {name}", getattr(collective_cases, name))
        if "TORCH_NPU_HCCL_TRANSPORT" in environment:
            return good
        good &= attempt(world, f"{what}: uneven", collective_cases.uneven)
        for model in training_cases.MODELS:
            good &= attempt(world, f"{what}: ddp {model}", training_cases.ddp, model)
            good &= attempt(world, f"{what}: fsdp2 {model}", training_cases.fsdp2, model)
        for name in TRAINING:
            good &= attempt(world, f"{what}: {name}", getattr(training_cases, name))
    return good


def main():
    good = True
    for ranks in [int(text) for text in sys.argv[1:]] or [2, 4, 8]:
        good &= sweep(ranks, {}, f"{ranks} ranks")
        if ranks <= 4:
            good &= sweep(ranks, {"SOFTNPU_ASYNC": "1"}, f"{ranks} ranks, asynchronous")
            good &= sweep(ranks, {"TASK_QUEUE_ENABLE": "2"}, f"{ranks} ranks, task queue")
            good &= sweep(ranks, {"TORCH_NPU_HCCL_TRANSPORT": "gloo"}, f"{ranks} ranks through gloo")
    return not good


if __name__ == "__main__":
    sys.exit(main())
