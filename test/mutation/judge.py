"""Gives mutants to tests. The tests of each run in a fork of a process that has imported what they need: in a copy of the package, where
a mutant of a Python file is written, or with a libopapi.so in which the environment switches one of a kernel table on.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "torch_npu"
OFFICIAL_MODE = ("--mode", "queue 0")  # one is enough to see what a kernel computes
PATIENCE = 10  # times the processor time that tests may take, until they are given up
PROCESSES = {"run", "check", "whole", "broken"}  # fixtures that start processes
PYTEST = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")


@dataclass(frozen=True)
class Stage:
    """Tests that are run together, by pytest or by another program."""

    arguments: tuple[str, ...]
    processes: bool | None = None  # of pytest's tests only those that start processes, or only the others
    program: str = "pytest"  # or "official": checks of ci/official.sh

    def __str__(self) -> str:
        return f"{self.program} {' '.join(self.arguments)}{' (that start processes)' if self.processes else ''}"


class Selection:
    """A plugin of pytest: the tests that start processes, or the others. The former are slow, and run only if the latter pass."""

    def __init__(self, processes: bool):
        self.processes = processes

    def pytest_collection_modifyitems(self, config, items):
        chosen = [item for item in items if bool(PROCESSES & set(item.fixturenames)) == self.processes]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


class Watch:
    """A plugin of pytest: keeps the name of the test that runs, in a file, where it stays if the process ends."""

    def __init__(self, file: Path):
        self.file = file

    def pytest_runtest_logstart(self, nodeid, location):
        self.file.write_text(nodeid)


class Comparer:
    """As test/ops/pool.py has it, but in this process: that of a single mutant, where a crash is an answer."""

    def compare(self, op: str, dtype: str, limit: int | None) -> dict:
        import opinfo
        import torch

        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        return {"checks": {name: asdict(result) for name, result in opinfo.Comparison(op, getattr(torch, dtype), limit).run().items()}}

    def stop(self) -> None:
        pass


def import_operators() -> None:
    """For tests of kernels: torch, torch_npu and OpInfo. No card is used, so that the process can be forked."""
    sys.path.insert(0, str(ROOT / "test/ops"))
    import opinfo  # noqa: F401
    import pool
    import pytest  # noqa: F401

    import torch_npu  # noqa: F401

    pool.Comparer = Comparer
    os.environ["TORCH_NPU_FALLBACK_CPU_DISABLE"] = "1"


def run_stage(copy: Path, stage: Stage) -> int:
    """In a process of its own. Returns the exit code of pytest, or becomes the program that runs the tests."""
    os.chdir(ROOT)
    if stage.program == "official":
        os.environ["SOFTNPU_PREFIX"] = str(copy / "softnpu")
        for name in ("PYTHONPATH", "LD_LIBRARY_PATH", "TORCH_NPU_FALLBACK_CPU_DISABLE"):  # of our package
            os.environ.pop(name, None)
        os.execvp("bash", ["bash", "ci/official.sh", *OFFICIAL_MODE, *stage.arguments])
    import pytest

    plugins = [Watch(last_test_of(copy, os.getppid())), *([] if stage.processes is None else [Selection(stage.processes)])]
    return int(pytest.main([*PYTEST, *stage.arguments], plugins=plugins))


def run_tests(copy: Path, stage: Stage, environment: dict[str, str], processor_seconds: float, seconds: float) -> str:
    """"caught", "survived", "no tests" or "stuck". Processor time is limited first: on a busy machine a long wait says little."""
    file = output_of(copy)
    last_test_of(copy, os.getpid()).write_text("")
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            output = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.environ.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
            os.environ |= {"PYTHONPATH": str(copy.parent), **environment}
            sys.path.insert(0, str(copy.parent))
            resource.setrlimit(resource.RLIMIT_CPU, (int(processor_seconds), int(processor_seconds)))
            os._exit(run_stage(copy, stage))
        finally:
            os._exit(1)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            end_group(child)
            return {0: "survived", 5: "no tests"}.get(os.waitstatus_to_exitcode(status), "caught")
        time.sleep(0.05)
    end_group(child)
    os.waitpid(child, 0)
    return "stuck"


def output_of(copy: Path) -> Path:
    """What the tests of this job printed last."""
    return copy.parent / f"output-{os.getpid()}"


def last_test_of(copy: Path, job: int) -> Path:
    """The test that this job has run last: with a mutant that is caught, the one that failed."""
    return copy.parent / f"test-{job}"


def end_group(leader: int) -> None:
    """Ends what the tests of a mutant have left running."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        pass


def copy_package(folder: Path, opapi: Path | None = None) -> Path:
    """The Python files of the package, with links to what was compiled: a mutant never touches the checkout.

    `opapi`: the library that takes the place of softnpu's libopapi.so.
    """
    copy = folder / "torch_npu"
    copy.mkdir(parents=True)
    for entry in PACKAGE.iterdir():
        if entry.name == "softnpu" and opapi:
            shutil.copytree(entry, copy / entry.name, ignore=shutil.ignore_patterns("lib64"))
            (copy / "softnpu/lib64").mkdir()
            for library in (entry / "lib64").iterdir():
                (copy / "softnpu/lib64" / library.name).symlink_to(opapi if library.name == opapi.name else library.resolve())
        elif entry.is_symlink():
            (copy / entry.name).symlink_to(entry.resolve())
        elif entry.is_dir() and entry.name != "__pycache__":
            shutil.copytree(entry, copy / entry.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif entry.is_file():
            shutil.copy(entry, copy / entry.name)
    return copy


class Judge:
    """A mutant is caught if a test fails with it and passes without it."""

    def __init__(self, copy: Path, processor_seconds: float):
        self.copy, self.processor_seconds = copy, processor_seconds
        self.healthy: dict[Stage, bool] = {}

    def run(self, stage: Stage, environment: dict[str, str] | None = None) -> str:
        return run_tests(self.copy, stage, environment or {}, self.processor_seconds, PATIENCE * self.processor_seconds)

    def passes(self, stage: Stage) -> bool:
        """Without a mutant."""
        if stage not in self.healthy:
            before = self.run(stage)
            self.healthy[stage] = before == "survived"
            if before in ("caught", "stuck"):
                print(f"fails without a mutant ({before}): {stage}\n{output_of(self.copy).read_text(errors='replace')[-600:]}", flush=True)
        return self.healthy[stage]

    def outcome(self, stages: list[Stage], file: str = "", text: str = "", environment: dict[str, str] | None = None) -> str:
        """Of a mutant that replaces the text of a file of the package, or that the environment switches on."""
        original, result = (self.copy / file).read_text() if file else "", "no healthy tests"
        for stage in stages:
            if self.healthy.get(stage) is False:
                continue
            if file:
                (self.copy / file).write_text(text)
            answer = self.run(stage, environment)
            failed = last_test_of(self.copy, os.getpid()).read_text()
            if file:
                (self.copy / file).write_text(original)
            failing = answer in ("caught", "stuck")
            if answer == "no tests" or (failing and not self.passes(Stage((failed,)) if failed else stage) and not self.passes(stage)):
                continue
            result = answer
            if failing:
                break
        return result
