"""Counts what an operator of torch's OpInfo database copies between host and device and how often it waits, by ATen operator.

Each sample runs twice, forward and backward, and the second run is counted by softnpu. Nothing may be copied or waited for,
except what test/expect/waits.yaml lists with a reason: "aten::operator" wherever it is called, or "entry of the database
aten::operator" there alone. An entry that is not needed is an error as well.
"""

from __future__ import annotations

import itertools
from collections import defaultdict

import counters
import expect
import torch
from opinfo import HOST_ARGUMENTS, OPS, Result, describe, describe_error, place, recover, tensors
from torch.utils._python_dispatch import TorchDispatchMode

COUNTED = ("h2d_copies", "d2h_copies", "synchronizations")
SAMPLES = 8  # of each entry; more shapes do not take other paths through the adapter


def pairs() -> list[tuple[str, torch.dtype]]:
    """Every entry of the database with float32, or int64 where it has no float32."""
    chosen = []
    for name, op in OPS.items():
        known = op.supported_dtypes("cpu")
        chosen += [(name, dtype) for dtype in (torch.float32, torch.int64) if dtype in known][:1]
    return chosen


class Watch(TorchDispatchMode):
    """Adds up what the ATen operators within copy and wait for."""

    def __init__(self):
        super().__init__()
        self.found: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COUNTED, 0))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        with counters.Counted() as count:
            result = func(*args, **(kwargs or {}))
        for name in COUNTED:
            if getattr(count, name):
                self.found[func._schema.name][name] += getattr(count, name)
        return result


def reason(entry: str, aten: str) -> str | None:
    """Why the operator may copy or wait."""
    listed = expect.load("waits")
    return listed.get(aten) or listed.get(f"{entry} {aten}")


def stale(found: dict[str, list[str]]) -> list[str]:
    """Lines of the list that no entry of the database needed; `found` has the ATen operators that copied or waited by entry."""
    used = {aten for names in found.values() for aten in names} | {f"{entry} {aten}" for entry, names in found.items() for aten in names}
    return [f"test/expect/waits.yaml: {key}: nothing copies or waits there" for key in expect.load("waits") if key not in used]


class Comparison:
    def __init__(self, name: str, dtype: torch.dtype, limit: int | None = None, device: str = "npu"):
        self.name, self.op, self.dtype, self.device = name, OPS[name], dtype, device
        self.limit = min(limit or SAMPLES, SAMPLES)
        self.found: set[str] = set()

    def run(self) -> dict[str, Result]:
        results = {"forward": self.check(backward=False)}
        if self.dtype is torch.float32 and self.op.supports_autograd and self.dtype in self.op.supported_backward_dtypes("cpu"):
            results["backward"] = self.check(backward=True)
        return results

    def check(self, backward: bool) -> Result:
        result = Result()
        torch.manual_seed(0)
        try:
            samples = list(itertools.islice(self.op.sample_inputs("cpu", self.dtype, requires_grad=backward), self.limit))
        except Exception as error:  # the database cannot make inputs for this type
            return Result(detail=f"no samples: {error}")
        for number, sample in enumerate(samples):
            try:
                self.compute(sample, backward)
                watch = self.compute(sample, backward)
            except Exception as error:  # whether it works at all is compared by opinfo.py
                result.detail = f"sample {number}: {describe_error(error)}"
                recover()
                continue
            self.found |= set(watch.found)
            hidden = {aten: counts for aten, counts in watch.found.items() if not reason(self.name, aten)}
            if hidden:
                return Result("fail", result.samples + 1, f"sample {number}: {describe(sample)}: {hidden}")
            result.status, result.samples = "pass", result.samples + 1
        return result

    def compute(self, sample, backward: bool) -> Watch:
        rest = "cpu" if self.op.name in HOST_ARGUMENTS else self.device
        value, args, kwargs = place(sample.input, self.device), place(sample.args, rest), place(sample.kwargs, rest)
        leaves = [t for t in tensors((value, args, kwargs)) if t.requires_grad]
        torch.npu.synchronize()
        with Watch() as watch:
            result = self.op(value, *args, **kwargs)
        if not backward:
            return watch
        if sample.output_process_fn_grad is not None:
            result = sample.output_process_fn_grad(result)
        results = [t for t in tensors(result) if t.requires_grad]
        if results:
            seeds = [torch.ones_like(t) for t in results]
            with watch:
                torch.autograd.grad(results, leaves, seeds, allow_unused=True)
        return watch
