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
PATIENCE = 10  # times what the tests take without a mutant, until they are given up
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
        chosen = [item for item in items if bool({"run", "check"} & set(item.fixturenames)) == self.processes]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


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
        os.execvp("bash", ["bash", "ci/official.sh", "--here", *stage.arguments])
    import pytest

    return int(pytest.main([*PYTEST, *stage.arguments], plugins=[] if stage.processes is None else [Selection(stage.processes)]))


def run_tests(copy: Path, stage: Stage, environment: dict[str, str], processor_seconds: float, seconds: float) -> str:
    """"caught", "survived", "no tests" or "stuck". Processor time is limited first: on a busy machine a long wait says little."""
    file = output_of(copy)
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
    """Tests that fail without a mutant are not asked."""

    def __init__(self, copy: Path, processor_seconds: float):
        self.copy, self.processor_seconds = copy, processor_seconds
        self.patience: dict[Stage, float] = {}  # seconds for the tests that pass without a mutant

    def passes(self, stage: Stage) -> bool:
        if stage not in self.patience:
            begin = time.monotonic()
            before = run_tests(self.copy, stage, {}, self.processor_seconds, PATIENCE * self.processor_seconds)
            self.patience[stage] = 30 + PATIENCE * (time.monotonic() - begin) if before == "survived" else 0
            if before in ("caught", "stuck"):
                print(f"fails without a mutant ({before}): {stage}\n{output_of(self.copy).read_text(errors='replace')[-600:]}", flush=True)
        return self.patience[stage] > 0

    def outcome(self, stages: list[Stage], file: str = "", text: str = "", environment: dict[str, str] | None = None) -> str:
        """Of a mutant that replaces the text of a file of the package, or that the environment switches on."""
        original, result = (self.copy / file).read_text() if file else "", "no healthy tests"
        for stage in stages:
            if not self.passes(stage):
                continue
            if file:
                (self.copy / file).write_text(text)
            result = run_tests(self.copy, stage, environment or {}, self.processor_seconds, self.patience[stage])
            if file:
                (self.copy / file).write_text(original)
            if result != "survived":
                break
        return result
