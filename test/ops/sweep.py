#!/usr/bin/env python3
"""Compares every operator of torch's OpInfo database on npu with the CPU and writes sweep.json and sweep.md.

    python test/ops/sweep.py                            all operators, all dtypes, all samples (hours)
    python test/ops/sweep.py --dtype float32 --op add   some of them
    python test/ops/sweep.py --fallback                 allow the CPU fallback, and list what falls back

Ends with code 1 if a pair does not do what test/expect says.
"""

import argparse
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

import expect
import opinfo
import pool
import torch

DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "uint8", "bool", "complex64")


def pair_status(answer: dict) -> str:
    statuses = {check["status"] for check in answer["checks"].values()}
    return next((s for s in ("crash", "hang", "fail", "fallback", "pass") if s in statuses), "none")


def summary(answers: dict[tuple[str, str], dict]) -> str:
    lines = ["| dtype | " + " | ".join(f"{check} pass / checked" for check in opinfo.CHECKS) + " | pairs passing |", "|---" * 6 + "|"]
    for dtype in dict.fromkeys(d for _, d in answers):
        chosen = [a for (_, d), a in answers.items() if d == dtype]
        cells = []
        for check in opinfo.CHECKS:
            states = [a["checks"][check]["status"] for a in chosen if check in a["checks"]]
            cells.append(f"{states.count('pass')} / {len(states) - states.count('none')}")
        whole = Counter(map(pair_status, chosen))
        cells.append(f"{whole['pass']} / {len(chosen) - whole['none']}")
        lines.append(f"| {dtype} | " + " | ".join(cells) + " |")
    missing = Counter(name for a in answers.values() for name in a["missing"])
    lines += ["", "Operators without kernel, by pairs that need them:", ""]
    lines += [f"- {name}: {count}" for name, count in missing.most_common()] or ["none"]
    lines += ["", "Not passing:", ""]
    for (op, dtype), answer in sorted(answers.items()):
        lines += [f"- {op} {dtype} {name}: {check['status']}: {check['detail']}" for name, check in answer["checks"].items()
                  if check["status"] not in ("pass", "none")]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", default="", help="regular expression that the operator's name matches from its beginning")
    parser.add_argument("--dtype", nargs="+", default=DTYPES, choices=DTYPES)
    parser.add_argument("--limit", type=int, help="samples per check (default: all)")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=300, help="time that one pair may take")
    parser.add_argument("--fallback", action="store_true", help="allow the CPU fallback")
    parser.add_argument("--out", type=Path, default=Path.cwd(), help="folder of sweep.json and sweep.md")
    options = parser.parse_args()

    pairs = [(op, str(dtype).removeprefix("torch.")) for op, dtype in opinfo.pairs([getattr(torch, d) for d in options.dtype])
             if re.match(options.op, op)]
    done = Counter()

    def report(op: str, dtype: str, answer: dict) -> None:
        done[pair_status(answer)] += 1
        print(f"\r{sum(done.values())}/{len(pairs)} {dict(done)} {op[:40]:40}", end="", file=sys.stderr, flush=True)

    answers = pool.run(pairs, options.limit, options.workers, options.seconds, options.fallback, report)
    print(file=sys.stderr)
    options.out.mkdir(parents=True, exist_ok=True)
    rows = [{"op": op, "dtype": dtype, **answer} for (op, dtype), answer in sorted(answers.items())]
    (options.out / "sweep.json").write_text(json.dumps(rows, indent=1))
    (options.out / "sweep.md").write_text(summary(answers))
    print(summary(answers).split("\n\n")[0])
    surprises = [text for (op, dtype), answer in sorted(answers.items()) for text in expect.surprises(op, dtype, answer["checks"])]
    print(*surprises, sep="\n")
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
