#!/usr/bin/env python3
"""Makes small mistakes, one at a time, and runs the tests that belong to the place: they should fail.

    python test/mutation/run.py                          165 mutants: two thirds of torch_npu/, one third of softnpu's kernel tables
    python test/mutation/run.py --seed 7 --count 40      others
    python test/mutation/run.py --paths npu/amp kernels  of some files; kernels/ are the tables
    python test/mutation/run.py --only npu/random.py:31  mutants of one line, all of them
    python test/mutation/run.py --journal FILE           keeps the answers in FILE, and asks only for those that are not there

Prints a line for each, the share that was caught and the others: survived, stuck, or without tests that pass. Mutants that do nothing
wrong are listed with their reason in test/expect/mutants.yaml, and do not count. Ends with code 1 if less than 90 % are caught.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import queue
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent))
import kernel_tests  # noqa: E402
import operators  # noqa: E402
import schemata  # noqa: E402
import tables  # noqa: E402
import tests_of  # noqa: E402
from judge import OFFICIAL_MODE, PACKAGE, ROOT, Judge, Stage, copy_package, import_operators  # noqa: E402

EQUIVALENT = ROOT / "test/expect/mutants.yaml"
MUST = 0.9
RESERVE = 1.2  # times as many mutants of tables as are asked for are compiled, since the compiler may refuse some


class Case:
    """A mutant, its tests, and how it is put in place."""

    def __init__(self, name: str, mutant, stages: list[Stage], **placement):
        self.name, self.mutant, self.stages, self.placement = name, mutant, stages, placement
        # How test/expect/mutants.yaml names it: by its code, because lines move.
        self.label = " ".join(f"{name}: {mutant.where} {mutant.before} -> {mutant.after}".split())


def python_cases(options: argparse.Namespace, count: int) -> list[Case]:
    """Spread over the files by how much there is to change in each."""
    found = []
    for name in tests_of.files():
        if not options.paths or name.startswith(tuple(options.paths)):
            found += [(name, mutant) for mutant in operators.mutants((PACKAGE / name).read_text())]
    if options.only:
        found, count = [(name, m) for name, m in found if f"{name}:{m.line}" in options.only], len(found)
    else:
        random.Random(options.seed).shuffle(found)
    cases = (Case(name, m, tests_of.stages(name, m.function), file=name, text=m.text) for name, m in found if operators.is_valid(m))
    return list(itertools.islice((case for case in cases if case.stages), count))


def table_cases(options: argparse.Namespace, count: int) -> tuple[list[Case], Path | None]:
    """Spread over the tables; and the library that they are compiled into."""
    found = tables.choose(options.seed, options.paths)
    if options.only:
        found = [m for m in found if f"{m.name}:{m.line}" in options.only]
        count = len(found)
    if not (wanted := found[:int(count * RESERVE)]):
        return [], None
    print(f"compiling {len(wanted)} mutants of kernel tables", flush=True)
    library, compiled = schemata.build(wanted, options.jobs)
    chosen = list(compiled.items())[:count]
    cases = [Case(m.name, m, kernel_tests.stages(m), environment={schemata.VARIABLE: str(number)}) for number, m in chosen]
    if any(stage.program == "official" for case in cases for stage in case.stages):
        subprocess.run(["bash", "ci/official.sh", *OFFICIAL_MODE, "operators"], cwd=ROOT, check=True)  # makes its environment
    return sorted(cases, key=lambda case: (case.name, case.mutant.line)), library


def judge(waiting, results, copy: Path, opapi: Path | None, seconds: float) -> None:
    """One job: takes cases until there are none left. With `opapi` it is a new process, for tests of kernels."""
    if opapi:
        import_operators()
    else:
        copy_package(copy.parent)
    judge, parent = Judge(copy, seconds), os.getppid()
    while True:
        try:
            cases = waiting.get(timeout=1)
        except queue.Empty:
            return
        for label, stages, placement in cases:
            if os.getppid() != parent:  # it was ended
                return
            results.put((label, judge.outcome(stages, **placement)))


def start_jobs(cases: list[Case], opapi: Path | None, folder: Path, options: argparse.Namespace, results) -> tuple:
    """Jobs for cases of one kind: forks of this process, or for kernels processes that start with the libraries of a copy."""
    context = multiprocessing.get_context("spawn" if opapi else "fork")
    waiting = context.Queue()
    groups = [list(group) for _, group in itertools.groupby(cases, key=lambda case: case.stages)]  # their tests are tried once
    random.Random(options.seed).shuffle(groups)  # what is known when a run is stopped is a sample too
    for group in groups:
        waiting.put([(case.label, case.stages, case.placement) for case in group])
    copies = [folder / f"{'tables' if opapi else 'python'}{0 if opapi else number}/torch_npu" for number in range(options.jobs)]
    before = dict(os.environ)
    if opapi:
        copy_package(copies[0].parent, opapi)
        # The adapter finds softnpu beside itself, so it must come from the copy.
        os.environ |= {"LD_LIBRARY_PATH": f"{copies[0] / 'lib'}:{before.get('LD_LIBRARY_PATH', '')}", "PYTHONPATH": str(copies[0].parent)}
        del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
    jobs = [context.Process(target=judge, args=(waiting, results, copy, opapi, options.seconds)) for copy in copies]
    for job in jobs:
        job.start()
    os.environ.clear()
    os.environ |= before
    return jobs, waiting


def receive(results, jobs: list):
    while True:
        try:
            return results.get(timeout=5)
        except queue.Empty:
            if not any(job.is_alive() for job in jobs):
                raise SystemExit("no job is left") from None


def ask(cases: list[Case], opapi: Path | None, options: argparse.Namespace) -> dict[str, str]:
    """Outcomes by label; those that the journal knows are taken from there."""
    known = options.journal.read_text().splitlines() if options.journal and options.journal.exists() else []
    answers = dict(map(json.loads, known))
    by_label = {case.label: case for case in cases if case.label not in answers}
    number = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for placement, library in (("file", None), ("environment", opapi)):
            left = [case for case in by_label.values() if placement in case.placement]
            if not left:
                continue
            results = multiprocessing.get_context("spawn").Queue()
            jobs, waiting = start_jobs(left, library, Path(folder), options, results)
            for _ in left:
                label, answers[label] = receive(results, jobs)
                number += 1
                print(f"{number}/{len(by_label)} {answers[label]:9} {by_label[label].name}:{by_label[label].mutant}", flush=True)
                if options.journal and answers[label] != "no healthy tests":
                    with options.journal.open("a") as file:
                        file.write(json.dumps([label, answers[label]]) + "\n")
            for job in jobs:
                job.join()
    return answers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=165)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--paths", nargs="+", default=[], metavar="PREFIX", help="files or folders below torch_npu/, or kernels/NAME.yaml")
    parser.add_argument("--only", nargs="+", default=[], metavar="FILE:LINE")
    parser.add_argument("--seconds", type=float, default=60, help="processor time that the tests of one mutant may take")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--journal", type=Path)
    options = parser.parse_args()
    if not list(PACKAGE.glob("_C.*")):
        parser.error("mutants need the package as `pip install -e . --no-build-isolation` links it: another one would be tested")

    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = os.environ["OMP_NUM_THREADS"] = "1"  # threads that wait would use up processor time
    in_tables = options.count // 3
    table, opapi = table_cases(options, in_tables)
    chosen = sorted(python_cases(options, options.count - in_tables), key=lambda case: (case.name, case.mutant.line)) + table
    listed = yaml.safe_load(EQUIVALENT.read_text()) or {}
    asked = [case for case in chosen if case.label not in listed]

    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    # What most tests import, once for all of them; torch_npu is each child's own.
    import pytest  # noqa: F401
    import torch._subclasses.fake_tensor
    import torch.distributed
    import torch.testing  # noqa: F401

    answers = ask(asked, opapi, options)
    for kind, placement in (("torch_npu/", "file"), ("kernel tables", "environment")):
        print(f"{kind}: {dict(Counter(answers[case.label] for case in asked if placement in case.placement))}")
    survivors = [case for case in asked if answers[case.label] != "caught"]
    caught = len(asked) - len(survivors)
    print(f"{caught} of {len(asked)} mutants caught ({100 * caught / max(len(asked), 1):.1f} %), {len(chosen) - len(asked)} equivalent")
    for case in survivors:
        print(f"{answers[case.label]}: {case.label}  (line {case.mutant.line})")
    return 0 if caught >= MUST * len(asked) else 1


if __name__ == "__main__":
    sys.exit(main())
