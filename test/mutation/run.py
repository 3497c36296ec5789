#!/usr/bin/env python3
"""Makes small mistakes in torch_npu/, one at a time, and runs the tests that belong to the file: they should fail.

    python test/mutation/run.py                          150 mutants of the Python files, in a copy of the package
    python test/mutation/run.py --seed 7 --count 40      others
    python test/mutation/run.py --paths npu/amp optim    of some files
    python test/mutation/run.py --only npu/random.py:31  mutants of one line, all of them

Prints a line for each, the share that was caught and the others: survived, stuck, or without tests that pass. Mutants that do nothing
wrong are listed with their reason in test/expect/mutants.yaml, and do not count. Ends with code 1 if less than 90 % are caught.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "torch_npu"
EQUIVALENT = ROOT / "test/expect/mutants.yaml"
MUST = 0.9
PATIENCE = 10  # times the processor time that tests may take, until they are given up
sys.path.insert(0, str(HERE))
from operators import Mutant, is_valid, mutants  # noqa: E402
from tests_of import tests_of  # noqa: E402


def copy_package(folder: Path) -> Path:
    """The Python files of the package, with links to what was compiled: a mutant never touches the checkout."""
    copy = folder / "torch_npu"
    copy.mkdir()
    for entry in PACKAGE.iterdir():
        if entry.is_symlink():
            (copy / entry.name).symlink_to(entry.resolve())
        elif entry.is_dir() and entry.name != "__pycache__":
            shutil.copytree(entry, copy / entry.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif entry.is_file():
            shutil.copy(entry, copy / entry.name)
    return copy


def choose(options: argparse.Namespace) -> list[tuple[str, Mutant]]:
    """Mutants spread over the files, by how much there is to change in each."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        if not options.paths or any(name.startswith(prefix) for prefix in options.paths):
            found += [(name, mutant) for mutant in mutants(path.read_text()) if tests_of(name, mutant.function)]
    if options.only:
        return [(name, m) for name, m in found if f"{name}:{m.line}" in options.only and is_valid(m)]
    random.Random(options.seed).shuffle(found)
    chosen = itertools.islice((item for item in found if is_valid(item[1])), options.count)
    return sorted(chosen, key=lambda item: (item[0], item[1].line))


class Selection:
    """A plugin of pytest: the tests that start processes, or the others. The former are slow, and run only if the latter pass."""

    def __init__(self, processes: bool):
        self.processes = processes

    def pytest_collection_modifyitems(self, config, items):
        chosen = [item for item in items if bool({"run", "check"} & set(item.fixturenames)) == self.processes]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


def run_tests(copy: Path, tests: list[str], processes: bool, seconds: float) -> str:
    """"caught", "survived", "no tests" or "stuck", in a fork of this process, which has imported torch already.

    Processor time is what is limited: on a busy machine a long wait says nothing about the mutant.
    """
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.environ["PYTHONPATH"] = str(copy.parent)
        del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
        os.chdir(ROOT)
        sys.path.insert(0, str(copy.parent))
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
        import pytest

        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests], plugins=[Selection(processes)])))
    end = time.monotonic() + PATIENCE * seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return {0: "survived", 5: "no tests"}.get(os.waitstatus_to_exitcode(status), "caught")
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "stuck"


class Judge:
    """Gives mutants to their tests, in a copy of the package. Tests that fail without a mutant are not asked."""

    def __init__(self, folder: Path, seconds: float):
        self.copy, self.seconds = copy_package(folder), seconds
        self.healthy: dict[tuple, bool] = {}

    def outcome(self, name: str, mutant: Mutant) -> str:
        tests, original = tests_of(name, mutant.function), (self.copy / name).read_text()
        for processes in (False, True):
            key = (*tests, processes)
            if key not in self.healthy:
                before = run_tests(self.copy, tests, processes, self.seconds)
                self.healthy[key] = before == "survived"
                if before in ("caught", "stuck"):
                    print(f"fails without a mutant ({before}): {' '.join(tests)}{' (processes)' if processes else ''}", flush=True)
            if not self.healthy[key]:
                continue
            (self.copy / name).write_text(mutant.text)
            result = run_tests(self.copy, tests, processes, self.seconds)
            (self.copy / name).write_text(original)
            if result != "survived":
                return result
        return "survived" if any(self.healthy[(*tests, processes)] for processes in (False, True)) else "no healthy tests"


def judge(part: list[tuple[int, str, Mutant]], total: int, seconds: float, results) -> None:
    """One job: its share of the mutants."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        judge = Judge(Path(folder), seconds)
        for number, name, mutant in part:
            outcome = judge.outcome(name, mutant)
            print(f"{number}/{total} {outcome:9} {name}:{mutant}", flush=True)
            results.put((name, mutant, outcome))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--paths", nargs="+", default=[], metavar="PREFIX", help="files or folders below torch_npu/")
    parser.add_argument("--only", nargs="+", default=[], metavar="FILE:LINE")
    parser.add_argument("--seconds", type=float, default=60, help="processor time that the tests of one mutant may take")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()

    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    # What most tests import, once for all of them; torch_npu is each child's own.
    import pytest  # noqa: F401
    import torch._subclasses.fake_tensor
    import torch.distributed
    import torch.testing  # noqa: F401

    chosen, listed = choose(options), yaml.safe_load(EQUIVALENT.read_text()) or {}
    asked = [(number, name, mutant) for number, (name, mutant) in enumerate(chosen, 1) if label(name, mutant) not in listed]
    cuts = [len(asked) * job // options.jobs for job in range(options.jobs + 1)]
    parts = [asked[begin:end] for begin, end in itertools.pairwise(cuts)]  # mutants of one file together: their tests are tried once
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    jobs = [context.Process(target=judge, args=(part, len(chosen), options.seconds, results)) for part in parts]
    for job in jobs:
        job.start()
    answers = [results.get() for _ in asked]
    for job in jobs:
        job.join()
    survivors = [(name, mutant, outcome) for name, mutant, outcome in answers if outcome != "caught"]
    caught = len(asked) - len(survivors)
    print(f"{caught} of {len(asked)} mutants caught ({100 * caught / max(len(asked), 1):.1f} %), {len(chosen) - len(asked)} equivalent")
    for name, mutant, outcome in sorted(survivors, key=lambda item: (item[0], item[1].line)):
        print(f"{outcome}: {label(name, mutant)}  (line {mutant.line})")
    return 0 if caught >= MUST * len(asked) else 1


def label(name: str, mutant: Mutant) -> str:
    """How test/expect/mutants.yaml names a mutant: by its code, because lines move."""
    return " ".join(f"{name}: {mutant.where} {mutant.before} -> {mutant.after}".split())


if __name__ == "__main__":
    sys.exit(main())
