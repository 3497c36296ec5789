"""Which tests belong to a row of a kernel table: the OpInfo tests of the operators that launch it, found by trying all of them, and
those of its table. A row that the adapter does not call is there for other clients of the ABI: tests call it through that,
and so does ci/official.sh.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache

import yaml
from judge import PACKAGE, ROOT, Stage
from schemata import BUILD
from tables import TableMutant

SAMPLES = 2  # of each operator of OpInfo, as test/ops/test_opinfo.py takes
OPERATORS = 6  # of a row are asked, those that launch the fewest others first
OPTIONS = "test/ops/test_options.py"  # of ATen's operators
OTHERS = ("test/custom_ops/test_other_clients.py", "test/custom_ops/test_older_clients.py")  # rows that the adapter does not call
OLDER = "test/cann_like/test_older.py"  # operators in place of newer ones
# Tests beside these, by table.
TESTS = {
    "attention": ("test/custom_ops/test_attention_versions.py", "test/python/test_attention.py", "test/custom_ops/test_attention.py",
                  "test/custom_ops/test_attention_abi.py"),
    "boxes": ("test/custom_ops/test_gradients.py",),
    "cache": ("test/custom_ops/test_caches.py",),
    "causal_conv": ("test/custom_ops/test_mhc.py",),
    "distributions": ("test/ops/test_samplers.py", "test/python/test_random.py", "test/python/test_graphs.py"),
    "elementwise": ("test/ops/test_composed.py",),
    "fill": ("test/ops/test_samplers.py", "test/python/test_random.py", "test/python/test_graphs.py"),
    "formats": ("test/custom_ops/test_formats.py",),
    "fused_collectives": ("test/distributed/test_fused_collectives.py", "test/distributed/test_quant_fused_collectives.py"),
    "image": ("test/ops/test_grid_sampler.py", "test/ops/test_interpolate.py"),
    "foreach": ("test/ops/test_foreach.py", "test/optim/test_torch_fused.py", "test/optim/test_options.py",
                "test/optim/test_fused_optimizers.py", "test/python/test_amp.py"),
    "gradients": ("test/custom_ops/test_gradients.py",),
    "index": ("test/ops/test_triangular.py", "test/python/test_sparse.py"),
    "inference": ("test/custom_ops/test_attention.py", "test/custom_ops/test_attention_abi.py"),
    "linalg": ("test/ops/test_triangular.py", "test/ops/test_lstsq.py"),
    "matmul": ("test/ops/test_composed.py", "test/custom_ops/test_formats.py"),
    "mhc": ("test/custom_ops/test_mhc.py", "test/cann_like/test_withdrawal.py"),
    "moe": ("test/custom_ops/test_moe.py",),
    "moe_distribute": ("test/distributed/test_moe_distribute.py",),
    "nn": ("test/ops/test_convolutions.py", "test/ops/test_composed.py", "test/custom_ops/test_random_and_steps.py",
           "test/ops/test_sync_batch_norm.py", "test/python/test_quantization.py"),
    "optimizer": ("test/optim/test_options.py", "test/optim/test_fused_optimizers.py", "test/custom_ops/test_gradients.py"),
    "reduction": ("test/ops/test_composed.py",),
    "rnn": ("test/python/test_rnn.py", "test/custom_ops/test_gradients.py"),
    "sparse_attention": ("test/custom_ops/test_sparse_attention.py",),
    "special": ("test/ops/test_special.py",),
    "sync_batch_norm": ("test/ops/test_sync_batch_norm.py", "test/custom_ops/test_gradients.py"),
    "workers": ("test/custom_ops/test_workers.py",),
}
OFFICIAL = ("operators", "randomness", "training")  # modules of test/official


@cache
def called() -> set[str]:
    """The device operators that the adapter names."""
    sources = [*ROOT.glob("csrc/**/*.cpp"), *ROOT.glob("csrc/**/*.h"), *ROOT.glob("csrc/**/*.yaml"), *ROOT.glob("torch_npu/**/*.py")]
    return {name for path in sources for name in re.findall(r"\b(?:aclnn|softnpu)[A-Z]\w*", path.read_text())}


@cache
def official_checks() -> tuple[str, ...]:
    return tuple(f"{module}.{name}" for module in OFFICIAL
                 for name in re.findall(r"^def (check_\w+)", (ROOT / f"test/official/{module}.py").read_text(), re.MULTILINE))


@cache
def launching() -> dict[str, list[str]]:
    """Operators of OpInfo by the device operator that they launch with the samples that CI takes, the most specific first.

    All of them are tried, so the answer is kept while the adapter is the same.
    """
    kept, adapter = BUILD / "launches.json", PACKAGE / "lib/libtorch_npu.so"
    if not kept.exists() or kept.stat().st_mtime < adapter.stat().st_mtime:
        environment = {name: value for name, value in os.environ.items() if name != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
        program = subprocess.run([sys.executable, __file__], env=environment, stdout=subprocess.PIPE, text=True, check=True)
        kept.write_text(program.stdout.splitlines()[-1])
    launched = json.loads(kept.read_text())
    found: dict[str, list[str]] = {}
    for op in sorted(launched, key=lambda op: (len(launched[op]), op)):
        for name in launched[op]:
            found.setdefault(name, []).append(op)
    return found


@cache
def custom_operators() -> dict[str, list[str]]:
    """npu:: operators by the device operator that their row names."""
    found: dict[str, list[str]] = {}
    for file in ROOT.glob("csrc/ops/tables/*.yaml"):
        for row in yaml.safe_load(file.read_text()).get("custom") or []:
            older = row.get("older") or []
            for names in (row, *(older if isinstance(older, list) else [older])):
                found.setdefault(names.get("acl", ""), []).append(row["op"].partition("(")[0])
    return found


@cache
def older_operators() -> set[str]:
    """Device operators that are called where the provider lacks a newer one."""
    custom = [row for file in ROOT.glob("csrc/ops/tables/*.yaml") for row in yaml.safe_load(file.read_text()).get("custom") or []]
    return {names["acl"] for row in custom if (older := row.get("older")) for names in (older if isinstance(older, list) else [older])}


@cache
def launching_operators(table: str) -> list[str]:
    """npu:: operators of a family whose C++ chooses among versions of a device operator."""
    file = ROOT / f"csrc/ops/tables/{table}.yaml"
    rows = yaml.safe_load(file.read_text()).get("custom") or [] if file.exists() else []
    return [row["op"].partition("(")[0] for row in rows if "launch" in row]


def cases(operators: list[str]) -> Stage:
    chosen = " or ".join(sorted({name.partition(".")[0] for name in operators}))
    return Stage(("test/custom_ops/test_custom_ops.py", "test/custom_ops/test_rows.py", "-k", f"({chosen}) and not opcheck"))


def stages(mutant: TableMutant) -> list[Stage]:
    own = [Stage((file,)) for file in TESTS.get(mutant.table, ())]
    if mutant.row not in called():
        return [Stage(OTHERS), *own, Stage(official_checks(), program="official")]
    others = [Stage(OTHERS)] if any(f'"{mutant.row}"' in (ROOT / file).read_text() for file in OTHERS) else []
    if operators := custom_operators().get(mutant.row):
        return [cases(operators), *own, *others, *([Stage((OLDER,))] if mutant.row in older_operators() else [])]
    samples = tuple(f"test/ops/test_opinfo.py::test_equals_the_cpu[{op}]" for op in launching().get(mutant.row, [])[:OPERATORS])
    chosen = [] if samples else launching_operators(mutant.table)
    return [Stage((OPTIONS,)), *([Stage(samples)] if samples else []), *own, *([cases(chosen)] if chosen else []), *others]


def main() -> None:
    """Prints {operator: what it launches} as JSON."""
    sys.path.insert(0, str(ROOT / "test/ops"))
    import opinfo
    import pool
    import sweep
    import torch

    dtypes = {name: [d for d in sweep.DTYPES if getattr(torch, d) in op.supported_dtypes("cpu")] for name, op in opinfo.OPS.items()}
    answers = pool.run([(name, found[0]) for name, found in dtypes.items() if found], SAMPLES, os.cpu_count() or 1)
    print(json.dumps({name: answer["launched"] for (name, _), answer in answers.items()}))


if __name__ == "__main__":
    main()
