#!/usr/bin/env python3
"""Compares what torch's test databases list on npu with the CPU and writes sweep.json and sweep.md.

    python test/ops/sweep.py                            all operators (op_db), all dtypes, all samples (hours)
    python test/ops/sweep.py --dtype float32 --op add   some of them
    python test/ops/sweep.py --fallback                 allow the CPU fallback, and list what falls back
    python test/ops/sweep.py errors                     error inputs of op_db: the CPU's exception types
    python test/ops/sweep.py modules                    modules (module_db), forward and backward
    python test/ops/sweep.py optim                      optimisers (optim_db): loop, foreach, fused
    python test/ops/sweep.py random                     elementwise operators and reductions on seeded random inputs,
                                                        and common ones on more than 2^31 bytes (9 GiB; --op large:)
    python test/ops/sweep.py trace                      what operators copy between host and device, and wait for
    python test/ops/sweep.py types                      types that the CPU refuses: the same exception, at once

Ends with code 1 if a pair does not do what test/expect says.
"""

import argparse
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

import errors
import expect
import hidden_copies
import large_inputs
import modules
import opinfo
import optimizers
import pool
import random_inputs
import refused_types
import torch

DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "uint8", "bool", "complex64")


def pair_status(answer: dict) -> str:
    statuses = {check["status"] for check in answer["checks"].values()}
    return next((s for s in ("crash", "hang", "fail", "fallback", "pass") if s in statuses), "none")


def routes(answers: dict[tuple[str, str], dict]) -> str:
    """How the passing pairs were computed: by operators that CANN has, with an extension entry, on the CPU."""
    passing = [a for a in answers.values() if pair_status(a) == "pass"]
    on_cpu = sum(bool(a["missing"]) for a in passing)
    extended = sum(not a["missing"] and any(name.startswith("softnpu") for name in a["launched"]) for a in passing)
    checked = sum(pair_status(a) != "none" for a in answers.values())
    return (f"{len(passing)} of {checked} pairs pass ({100 * len(passing) / max(checked, 1):.1f} %): {len(passing) - extended - on_cpu} "
            f"through CANN names only, {extended} through extension entries, {on_cpu} through the CPU fallback")


def randomness(answers: dict[tuple[str, str], dict]) -> str:
    """How many samples could not be compared by value."""
    checks = [check for answer in answers.values() for check in answer["checks"].values()]
    return (f"; of {sum(check['samples'] for check in checks)} samples {sum(check['random'] for check in checks)} are drawn at random: "
            "compared by shape, type and repetition")


def summary(answers: dict[tuple[str, str], dict]) -> str:
    names = list(dict.fromkeys(check for a in answers.values() for check in a["checks"]))
    heads = ["dtype", *(f"{check} pass / checked" for check in names), "pairs passing"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for dtype in dict.fromkeys(d for _, d in answers):
        chosen = [a for (_, d), a in answers.items() if d == dtype]
        cells = []
        for check in names:
            states = [a["checks"][check]["status"] for a in chosen if check in a["checks"]]
            cells.append(f"{states.count('pass')} / {len(states) - states.count('none')}")
        whole = Counter(map(pair_status, chosen))
        cells.append(f"{whole['pass']} / {len(chosen) - whole['none']}")
        lines.append(f"| {dtype} | " + " | ".join(cells) + " |")
    lines += ["", routes(answers) + randomness(answers)]
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
    parser.add_argument("database", nargs="?", default="ops", choices=("ops", "errors", "modules", "optim", "random", "trace", "types"))
    parser.add_argument("--op", default="", help="regular expression that the operator's name matches from its beginning")
    parser.add_argument("--dtype", nargs="+", default=DTYPES, choices=DTYPES)
    parser.add_argument("--limit", type=int, help="samples per check (default: all)")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=300, help="time that one pair may take")
    parser.add_argument("--fallback", action="store_true", help="allow the CPU fallback")
    parser.add_argument("--resume", action="store_true", help="go on where a run with the same --out was stopped")
    parser.add_argument("--out", type=Path, default=Path.cwd(), help="folder of sweep.json and sweep.md")
    options = parser.parse_args()

    listed = {"ops": lambda: opinfo.pairs([getattr(torch, d) for d in options.dtype]), "errors": errors.pairs, "modules": modules.pairs,
              "optim": optimizers.pairs, "random": lambda: random_inputs.pairs() + large_inputs.pairs(), "trace": hidden_copies.pairs,
              "types": refused_types.pairs}
    pairs = [(op, str(dtype).removeprefix("torch.")) for op, dtype in listed[options.database]() if re.match(options.op, op)]
    options.out.mkdir(parents=True, exist_ok=True)
    journal = options.out / "sweep.jsonl"
    if not options.resume:
        journal.unlink(missing_ok=True)
    before = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    answers = {(row.pop("op"), row.pop("dtype")): row for row in before}
    done = Counter(map(pair_status, answers.values()))

    def report(op: str, dtype: str, answer: dict) -> None:
        with journal.open("a") as file:
            file.write(json.dumps({"op": op, "dtype": dtype, **answer}) + "\n")
        done[pair_status(answer)] += 1
        print(f"\r{sum(done.values())}/{len(pairs)} {dict(done)} {op[:40]:40}", end="", file=sys.stderr, flush=True)

    left = [pair for pair in pairs if pair not in answers]
    # Large inputs need the machine's memory for themselves.
    for chosen, workers in (([p for p in left if not p[0].startswith(large_inputs.PREFIX)], options.workers),
                            ([p for p in left if p[0].startswith(large_inputs.PREFIX)], 1)):
        answers |= pool.run(chosen, options.limit, workers, options.seconds, options.fallback, report, options.database)
    print(file=sys.stderr)
    rows = [{"op": op, "dtype": dtype, **answer} for (op, dtype), answer in sorted(answers.items())]
    (options.out / "sweep.json").write_text(json.dumps(rows, indent=1))
    (options.out / "sweep.md").write_text(summary(answers))
    print(*summary(answers).split("\n\n")[:2], sep="\n\n")
    surprises = [text for (op, dtype), answer in sorted(answers.items())
                 for text in expect.surprises(op, dtype, answer["checks"], options.limit is None)]
    if options.database == "trace" and not options.op:
        surprises += hidden_copies.stale({op: answer.get("found", []) for (op, _), answer in answers.items()})
    print(*surprises, sep="\n")
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
