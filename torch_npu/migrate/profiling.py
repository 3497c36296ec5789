"""Runs code and records every operator that it reaches, below autograd: library internals and the backward pass included.

`with OperatorProfile() as profile: ...` then print(profile.table()); or `python -m torch_npu.migrate profile script.py`.
"""

import json
import runpy
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torch_npu.migrate.analysis.operators import Support, overload_support
from torch_npu.migrate.project import Refusal

_DYNAMIC_SHAPES = 8  # different shapes of one operator from which on an executor cache hardly helps


@dataclass
class OperatorRecord:
    name: str
    support: Support
    calls: int = 0
    seconds: float = 0.0
    dtypes: Counter = field(default_factory=Counter)
    shapes: Counter = field(default_factory=Counter)


class OperatorProfile(TorchDispatchMode):
    """A context manager that records the operators of its block. Time is the host's, per operator, without its callers'."""

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[str, OperatorRecord] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        start = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        self._record(func, args, kwargs or {}, time.perf_counter() - start)
        return result

    def _record(self, func, args, kwargs, seconds: float) -> None:
        name = func.name() if hasattr(func, "name") else str(func)
        record = self.records.get(name)
        if record is None:
            support = overload_support(name) if torch._C._dispatch_has_kernel(name) else Support.NONE
            record = self.records[name] = OperatorRecord(name, support)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        record.calls += 1
        record.seconds += seconds
        record.dtypes.update({str(tensor.dtype).removeprefix("torch.") for tensor in tensors})
        record.shapes[tuple(tuple(tensor.shape) for tensor in tensors)] += 1

    def summary(self) -> dict:
        """The result as it is written to JSON."""
        total = sum(record.seconds for record in self.records.values()) or 1.0
        classes: dict[str, dict] = {str(kind): {"operators": 0, "calls": 0, "time": 0.0} for kind in Support}
        rows = []
        for record in sorted(self.records.values(), key=lambda record: -record.seconds):
            share = classes[str(record.support)]
            share["operators"] += 1
            share["calls"] += record.calls
            share["time"] += record.seconds / total
            rows.append({
                "operator": record.name, "support": str(record.support), "calls": record.calls,
                "time": round(record.seconds / total, 5), "dtypes": sorted(record.dtypes),
                "shapes": [[list(shape) for shape in shapes] for shapes, _ in record.shapes.most_common(10)],
                "different_shapes": len(record.shapes),
            })  # fmt: skip
        return {"classes": classes, "operators": rows, "warnings": self.warnings()}

    def warnings(self) -> list[str]:
        found = []
        for record in self.records.values():
            if len(record.shapes) >= _DYNAMIC_SHAPES and len(record.shapes) > record.calls / 2:
                found.append(f"dynamic shapes: {record.name} saw {len(record.shapes)} different shapes in {record.calls} calls")
        float64 = sorted(record.name for record in self.records.values() if "float64" in record.dtypes)
        if float64:
            found.append(f"float64 in {len(float64)} operators, among them {', '.join(float64[:3])}: slow or missing on Ascend cards")
        return found

    def table(self, limit: int = 30) -> str:
        summary = self.summary()
        lines = [f"{'operator':<48} {'support':<10} {'calls':>7} {'time':>7}  dtypes"]
        for row in summary["operators"][:limit]:
            lines.append(f"{row['operator']:<48} {row['support']:<10} {row['calls']:>7} {row['time']:>6.1%}  {', '.join(row['dtypes'])}")
        if len(summary["operators"]) > limit:
            lines.append(f"... and {len(summary['operators']) - limit} more")
        shares = [f"{name} {share['operators']} operators, {share['time']:.1%} of time" for name, share in summary["classes"].items()]
        return "\n".join([*lines, "; ".join(shares), *(f"warning: {text}" for text in summary["warnings"])])


def run_script(script: str, arguments: list[str], device: str, json_file: Path | None, fail_on: str) -> int:
    """Runs a script as `python script arguments`, and reports its operators whether or not it ends well."""
    from torch_npu.migrate.analysis.project import exit_code

    if not Path(script).is_file():
        raise Refusal(f"the script {script} does not exist")
    if device == "npu":
        from torch_npu.contrib import transfer_to_npu

        transfer_to_npu.apply()
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    failure: BaseException | None = None
    profile = OperatorProfile()
    try:
        with profile:
            runpy.run_path(script, run_name="__main__")
    except SystemExit as exit:
        failure = exit if exit.code not in (None, 0) else None
    except Exception as error:
        failure = error
    summary = profile.summary()
    if json_file is not None:
        json_file.write_text(json.dumps(summary, indent=1) + "\n")
    print(profile.table())
    if failure is not None:
        hint = "; cure: --device npu runs it with cuda redirected to npu" if device == "cpu" and "CUDA" in str(failure) else ""
        print(f"error: the script failed after {len(profile.records)} operators: {failure!r}{hint}", file=sys.stderr)
        return 1
    counts = {name: share["operators"] for name, share in summary["classes"].items()}
    return exit_code(counts, fail_on)
