"""Gives mutants to tests, in a copy of the package: a mutant of a Python file is written there, one of a kernel table is switched on
by a variable of the environment. Tests run in forks of a process that has imported torch already.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "torch_npu"
PATIENCE = 10  # times what the tests take without a mutant, until they are given up


@dataclass(frozen=True)
class Stage:
    """Tests that are run together, by pytest or by another program."""

    arguments: tuple[str, ...]
    processes: bool | None = None  # of pytest's tests only those that start processes, or only the others
    program: str = "pytest"  # or "official": ci/official.sh, "ops": all samples of operators with test/ops/sweep.py

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


def copy_package(folder: Path, opapi: Path | None) -> Path:
    """The Python files of the package, with links to what was compiled: a mutant never touches the checkout.

    `opapi`: the library that takes the place of softnpu's libopapi.so.
    """
    copy = folder / "torch_npu"
    copy.mkdir()
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


def run_stage(copy: Path, stage: Stage, environment: dict[str, str]) -> int:
    """In a process of its own. Returns the exit code of pytest, or does not return."""
    os.environ.update(environment)
    os.chdir(ROOT)
    if stage.program == "official":
        os.environ["SOFTNPU_PREFIX"] = str(copy / "softnpu")
        os.execvp("bash", ["bash", "ci/official.sh", "--here", *stage.arguments])
    os.environ["PYTHONPATH"] = str(copy.parent)
    sys.path.insert(0, str(copy.parent))
    if not (copy / "softnpu").is_symlink():
        # The adapter finds softnpu beside itself, so it must come from the copy: here, and in processes that tests start.
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(copy / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]))
        ctypes.CDLL(str(copy / "lib/libtorch_npu.so"))
    if stage.program == "ops":
        arguments = [*stage.arguments, "--workers", "1", "--out", str(copy.parent / "sweep")]
        os.execv(sys.executable, [sys.executable, "test/ops/sweep.py", *arguments])
    import pytest

    plugins = [] if stage.processes is None else [Selection(stage.processes)]
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *stage.arguments], plugins=plugins))


def run_tests(copy: Path, stage: Stage, environment: dict[str, str], processor_seconds: float, seconds: float) -> str:
    """"caught", "survived", "no tests" or "stuck". Processor time is limited first: on a busy machine a long wait says little."""
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
            resource.setrlimit(resource.RLIMIT_CPU, (int(processor_seconds), int(processor_seconds)))
            os._exit(run_stage(copy, stage, environment))
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


def end_group(leader: int) -> None:
    """Ends what the tests of a mutant have left running."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Judge:
    """Tests that fail without a mutant are not asked."""

    def __init__(self, folder: Path, processor_seconds: float, opapi: Path | None = None):
        self.copy, self.processor_seconds = copy_package(folder, opapi), processor_seconds
        self.patience: dict[Stage, float] = {}  # seconds for the tests that pass without a mutant

    def passes(self, stage: Stage) -> bool:
        if stage not in self.patience:
            begin = time.monotonic()
            before = run_tests(self.copy, stage, {}, self.processor_seconds, PATIENCE * self.processor_seconds)
            self.patience[stage] = 30 + PATIENCE * (time.monotonic() - begin) if before == "survived" else 0
            if before in ("caught", "stuck"):
                print(f"fails without a mutant ({before}): {stage}", flush=True)
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
