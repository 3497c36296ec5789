"""Every check of the kit by name: what runs it, and how long it may take. Names are FAMILY.NAME; families run in this order."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable

from torch_npu.verify import check_operator, collective, operators, randomness, timing, training
from torch_npu.verify.operators import fused
from torch_npu.verify.outcome import Outcome

FAMILIES = {"abi": "functions of the C ABI", "op": "operators", "fused": "fused operators", "random": "random numbers",
            "train": "training steps", "comm": "collectives", "time": "timings"}
# The quick form: fewer networks; every operator, in fewer types.
_QUICK_TRAINING = ("mlp", "gpt.bfloat16", "llama")
_PATIENCE = {"comm": 2.5, "train": 2.0, "time": 2.0}  # times what an operator may take


def functions(quick: bool) -> dict[str, Callable[[Outcome], None]]:
    """The checks that a worker process runs; those of the ABI are a program of their own."""
    found: dict[str, Callable[[Outcome], None]] = {}
    for name, operator in operators.by_name().items():
        found[f"op.{name}"] = lambda outcome, operator=operator: check_operator.run(operator, quick, outcome)  # type: ignore[misc]
    for operator in fused.CASES:
        found[f"fused.{operator.name}"] = lambda outcome, operator=operator: check_operator.run(operator, quick, outcome)  # type: ignore[misc]
    for name in randomness.DRAWS:
        found[f"random.{name}"] = lambda outcome, name=name: randomness.run(name, outcome)  # type: ignore[misc]
    for name in _QUICK_TRAINING if quick else training.PROGRAMS:
        found[f"train.{name}"] = lambda outcome, name=name: training.run(name, outcome)  # type: ignore[misc]
    found["comm.two_ranks"] = collective.run
    found["time.calls"] = lambda outcome: timing.run(quick, outcome)
    return found


def patience(name: str, seconds: float) -> float:
    return seconds * _PATIENCE.get(name.partition(".")[0], 1.0)


def matching(names: list[str], patterns: list[str]) -> list[str]:
    """Names that contain a pattern or match it as a shell's; all without patterns. A pattern that fits none is an error."""
    if not patterns:
        return names
    found: set[str] = set()
    for pattern in patterns:
        fitting = {name for name in names if pattern in name or fnmatch.fnmatchcase(name, pattern)}
        if not fitting:
            raise ValueError(f"no check fits '{pattern}'; families are {', '.join(FAMILIES)}, and --list prints every name")
        found |= fitting
    return [name for name in names if name in found]
