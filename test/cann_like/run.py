#!/usr/bin/env python3
"""Runs operators, optimisers and training steps where the device library has no softnpu... names, as CANN. See ci/cann_like.sh."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "ops")]

import folder  # noqa: E402


def operators(samples: int, chosen: str) -> tuple[int, Counter, list[str]]:
    """Of torch's OpInfo database, float32, as in test/ops/test_opinfo.py but with the CPU fallback allowed."""
    import re

    import expect
    import opinfo
    import pool
    import torch

    pairs = [(op, "float32") for op, _ in opinfo.pairs([torch.float32]) if re.match(chosen, op)]
    answers = pool.run(pairs, samples, len(os.sched_getaffinity(0)), fallback=True)
    calls: Counter = Counter()
    for answer in answers.values():
        calls.update(answer.get("fallback_calls", {}))
    # What is listed as failing may pass here: the lists are of runs in which the fallback is forbidden.
    surprises = [line for pair, answer in answers.items() for line in expect.surprises(*pair, answer["checks"], complete=False)]
    return len(pairs), calls, surprises


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1, help="samples of each operator")
    parser.add_argument("--op", default="", help="regular expression that an operator's name matches from its beginning")
    parser.add_argument("--list", action="store_true", help="print every operator that fell back")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cann_like_") as place:
        os.environ.update(folder.make(Path(place)))
        os.environ["TORCH_NPU_FALLBACK_CPU_DISABLE"] = "0"
        done = subprocess.run([sys.executable, str(HERE / "programs.py")], stdout=subprocess.PIPE, text=True)
        if not done.stdout.startswith("{"):
            raise SystemExit(f"programs.py ended with code {done.returncode}: {done.stdout}")
        programs = json.loads(done.stdout)
        count, calls, failures = operators(options.samples, options.op)
    calls.update(programs["fallback"])
    failures += programs["failures"]
    for line in failures:
        print("FAILED", line)
    print("most frequent on the CPU:", ", ".join(f"{name} {n}" for name, n in calls.most_common(None if options.list else 8)))
    print(f"operators withdrawn: {programs['withdrawn']}; programs run: {count + programs['programs']} ({count} operators of OpInfo, "
          f"{programs['programs']} optimisers and training steps); calls that fell back: {sum(calls.values())} of {len(calls)} operators; "
          f"failures: {len(failures)}")
    if not programs["withdrawn"] or not calls:
        print("FAILED: nothing was withdrawn or fell back, so this was no CANN-like folder")
        return 1
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
