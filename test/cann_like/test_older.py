"""Where the device library lacks an operator's newer version the older one computes the same, or the call says what needs the newer one.

All of `older:` in csrc/ops/tables that no condition chooses, at once: the names of their newer versions are hidden, and every case of
test/custom_ops of these operators runs in one process.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))

import folder  # noqa: E402


def replaced() -> dict[str, list[str]]:
    """Newer aclnn operator -> the npu:: operators that an older one is known for."""
    found: dict[str, list[str]] = {}
    for file in (HERE.parents[1] / "csrc/ops/tables").glob("*.yaml"):
        for row in yaml.safe_load(file.read_text()).get("custom") or []:
            older = row.get("older") or []
            if any("when" not in names for names in (older if isinstance(older, list) else [older])):
                found.setdefault(row["acl"], []).append(row["op"].partition("(")[0])
    return found


PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch, torch_npu
from test_custom_ops import CASES, assert_close, compared, operator, to
found = {}
for case in CASES:
    if case.op in sys.argv[2:]:
        try:
            actual, expected = compared(case, operator(case.op)(*to("npu", case.args), **to("npu", case.kwargs)))
            for a, e in zip(actual, expected):
                assert_close(a, e) if isinstance(e, torch.Tensor) else None
            found[str(case)] = [case.op, "equal"]
        except Exception as error:
            found[str(case)] = [case.op, f"{type(error).__name__}: {error}"]
print("\\n" + json.dumps(found))
"""


def test_older_operators_compute_what_their_successors_do(tmp_path):
    newer = replaced()
    operators = sorted(name for names in newer.values() for name in names)
    environment = folder.make(tmp_path, *(rf"{name}(?=GetWorkspaceSize|\0)" for name in newer))
    command = [sys.executable, "-c", PROGRAM, str(HERE.parent / "custom_ops"), *operators]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    refusals = ("needs a newer CANN", "needs a CANN that has", "this version of CANN has no", "this version of CANN does not take")
    wrong = {case: answer for case, (_, answer) in found.items() if answer != "equal" and not any(text in answer for text in refusals)}
    assert wrong == {}
    assert {op for op, answer in found.values() if answer == "equal"} == set(operators)
