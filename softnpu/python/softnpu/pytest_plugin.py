"""pytest plugin: markers for tests that need an NPU, settings of softnpu for a test run, and which operators the run covered.

Unless a marker or an option is used nothing is imported, changed or asked. docs/ci.md shows it in use. The options become environment
variables before the first conftest.py is read, because softnpu reads its settings when it is loaded; processes that tests start, and the
workers of pytest-xdist, inherit them.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from softnpu.recording import Summary

MARKERS = (
    "npu(count=1): needs so many NPUs; skipped where there are fewer (--npu-require: fails)",
    "softnpu_only: skipped on CANN",
    "cann_only: skipped on softnpu",
)
_OWN = ("SOFTNPU_DEVICES", "SOFTNPU_STRICT", "SOFTNPU_RECORD", "SOFTNPU_RECORD_ONCE", "TORCH_NPU_FALLBACK_CPU_DISABLE", "XDG_RUNTIME_DIR")


class State:
    """What has to be taken back when the run is over."""

    def __init__(self) -> None:
        self.before = {name: os.environ.get(name) for name in _OWN}
        self.folder: Path | None = None  # of this process's cards, and of the recording

    def own_folder(self) -> Path:
        """A worker of xdist may be killed: its folder lies in that of the process that started it, which removes both."""
        if self.folder is None:
            parent = os.environ.get("XDG_RUNTIME_DIR") if _is_worker() else None
            self.folder = Path(tempfile.mkdtemp(prefix="softnpu-", dir=parent))
        return self.folder

    def restore(self) -> None:
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


_STATE = pytest.StashKey[State]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("npu", "NPU code (softnpu)")
    group.addoption("--softnpu-cards", type=int, metavar="N", help="softnpu has N cards, 0 to 64")
    group.addoption("--softnpu-strict", action="store_true", help="softnpu refuses calls and data types that a card is known to refuse")
    group.addoption("--softnpu-private", action="store_true",
                    help="this run, and each of its xdist workers, has cards of its own, whose memory no other process fills")
    group.addoption("--npu-forbid-fallback", action="store_true", help="operators without an npu kernel are errors")
    group.addoption("--npu-require", action="store_true", help="a test marked npu fails where it would be skipped")
    group.addoption("--npu-coverage", action="store_true", help="report the operators of the device that the tests launched (softnpu)")
    group.addoption("--npu-coverage-json", metavar="FILE", help="write that report to FILE")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    options = early_config.known_args_namespace
    cards, coverage = options.softnpu_cards, options.npu_coverage or options.npu_coverage_json
    if not (cards is not None or options.softnpu_strict or options.softnpu_private or options.npu_forbid_fallback or coverage):
        return
    state = State()
    early_config.stash[_STATE] = state
    early_config.add_cleanup(state.restore)
    if cards is not None:
        _check_cards(cards)
        os.environ["SOFTNPU_DEVICES"] = str(cards)
    if options.softnpu_strict:
        os.environ["SOFTNPU_STRICT"] = "1"
    if options.npu_forbid_fallback:
        os.environ["TORCH_NPU_FALLBACK_CPU_DISABLE"] = "1"
    if options.softnpu_private:  # an xdist worker has a folder of its own as well
        os.environ["XDG_RUNTIME_DIR"] = str(state.own_folder())
    if coverage and not _is_worker():
        _start_recording(state)


def _is_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ


def _check_cards(cards: int) -> None:
    if not 0 <= cards <= 64:
        raise pytest.UsageError(f"--softnpu-cards {cards}: expected a number from 0 to 64")


def _start_recording(state: State) -> None:
    if "SOFTNPU_RECORD" in os.environ:
        raise pytest.UsageError("--npu-coverage records by SOFTNPU_RECORD, which is set already; unset it")
    from softnpu import place

    if place.loaded():
        raise pytest.UsageError("--npu-coverage: another plugin has loaded softnpu, which then records nothing; "
                                "start it by `softnpu trace -- pytest`")
    os.environ["SOFTNPU_RECORD"] = str(state.own_folder() / "calls.jsonl")
    os.environ["SOFTNPU_RECORD_ONCE"] = "1"


# ---- Markers ----


class Machine(NamedTuple):
    cards: int
    is_softnpu: bool
    reason: str  # why there are none


@cache
def machine() -> Machine:
    """Asked once, by the first test that has a marker."""
    try:
        import torch

        import torch_npu  # noqa: F401

        cards = torch.npu.device_count()  # type: ignore[attr-defined]
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), "")
        return Machine(0, False, f"{type(error).__name__}: {first}")
    from softnpu import place

    return Machine(cards, place.loaded() is not None, "torch_npu finds none")


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_runtest_setup(item: pytest.Item) -> None:
    needed = max((_count(mark) for mark in item.iter_markers("npu")), default=0)
    if needed and machine().cards < needed:
        had = f"there are {machine().cards}" if machine().cards else machine().reason
        reason = f"needs {needed} NPU{'s' if needed > 1 else ''}: {had}"
        if item.config.getoption("--npu-require"):
            pytest.fail(f"{reason} (--npu-require)", pytrace=False)
        pytest.skip(reason)
    for name, wanted in (("softnpu_only", True), ("cann_only", False)):
        if item.get_closest_marker(name) and not (machine().cards and machine().is_softnpu == wanted):
            what = "softnpu" if machine().is_softnpu else "CANN"
            pytest.skip(f"{name}: this is {what}" if machine().cards else f"{name}: no NPU: {machine().reason}")


def _count(mark: pytest.Mark) -> int:
    count = mark.kwargs.get("count", 1)
    if mark.args or set(mark.kwargs) - {"count"} or isinstance(count, bool) or not isinstance(count, int) or count < 1:
        pytest.fail(f"the marker is npu or npu(count=N) with N from 1, got {mark.args or mark.kwargs}", pytrace=False)
    return count


# ---- Coverage ----


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    state = config.stash.get(_STATE, None)
    if state is None or _is_worker() or not (config.getoption("--npu-coverage") or config.getoption("--npu-coverage-json")):
        return
    from softnpu import place, recording

    file = state.own_folder() / "calls.jsonl"
    found = recording.summarise([file] if file.exists() else [])
    known = place.operators()
    if path := config.getoption("--npu-coverage-json"):
        Path(path).write_text(json.dumps(_report(found, known), indent=2) + "\n")
    if not config.getoption("--npu-coverage"):
        return
    terminalreporter.section("npu coverage")
    if not found.operators and not found.collectives:
        terminalreporter.line("nothing was recorded: no test launched an operator on softnpu (CANN records nothing)")
        return
    rows = [(name, "; ".join(sorted(operator.types)), f"{operator.refused} refused" if operator.refused else "")
            for name, operator in sorted(found.operators.items())]
    if rows:
        terminalreporter.line(recording.table([("operator", "types", ""), *rows]))
    terminalreporter.line(f"{len(found.operators)} of {len(known)} operators, {len(found.collectives)} collectives")


def _report(found: Summary, known: list[str]) -> dict:
    operators = {name: {"types": sorted(operator.types), "refused_forms": operator.refused}
                 for name, operator in sorted(found.operators.items())}
    return {"operators": operators, "collectives": sorted(found.collectives), "known": len(known)}
