"""What the page shows, gathered from softnpu's records and from what running processes answer (torch_npu/_inspection.py)."""

import os
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from torch_npu import _inspection, hang

BETWEEN = 0.5  # seconds: who asks earlier gets the last snapshot
_PATIENCE = 0.8  # with processes that do not answer: a stopped one must not hold up the page
_MB = 1 << 20
_LONGEST = 80  # characters of a program's name
_WINDOW = 5.0  # seconds that rates are averaged over
PARTS = ("process", "queue", "streams", "groups", "memory", "operators", "fallbacks")


class Snapshots:
    """May be asked from several threads; they share a snapshot."""

    def __init__(self):
        self._lock = threading.Lock()
        self._last: dict = {}
        self._taken = float("-inf")
        self._processes: dict[int, _Process] = {}
        self._pool = ThreadPoolExecutor(64, thread_name_prefix="ask")

    def take(self) -> dict:
        with self._lock:
            if time.monotonic() - self._taken >= BETWEEN:
                self._last = self._gather()
                self._taken = time.monotonic()
            return self._last

    def _gather(self) -> dict:
        pids = [pid for pid in _inspection.processes() if pid != os.getpid()]
        self._processes = {pid: self._processes.get(pid) or _Process(pid) for pid in pids}
        for process in self._processes.values():
            process.begin(self._pool, PARTS)
        wait([process.answer for process in self._processes.values() if process.answer], timeout=_PATIENCE)
        reports, refusals = [], []
        for process in self._processes.values():
            try:
                reports.append(process.report())
            except _inspection.CannotAsk as why:
                refusals.append(str(why))
        reports = hang.in_order(reports)
        if any(hang.waits_long(report) for report in reports):
            self._add_stacks(reports)
        cards, reason = _cards()
        return {"time": time.time(), "cards": cards, "cards_refused": reason, "processes": [_row(report) for report in reports],
                "findings": hang.findings(reports), "refusals": refusals}

    def _add_stacks(self, reports: list[dict]) -> None:
        """Only while something hangs: they take Python's lock of the process."""
        asked = {self._pool.submit(_inspection.ask, report["process"]["pid"], "stacks"): report for report in reports}
        for answer in wait(asked, timeout=_PATIENCE).done:
            if not answer.exception():
                asked[answer] |= answer.result()


class _Process:
    """One that is asked again and again."""

    def __init__(self, pid: int):
        self.pid = pid
        self.answer: Future | None = None
        self._asked = 0.0
        self._streams: dict | None = None
        self._operators: deque = deque()  # earlier answers, the oldest first

    def begin(self, pool: ThreadPoolExecutor, parts: tuple[str, ...]) -> None:
        if self.answer is None:
            self._asked = time.monotonic()
            self.answer = pool.submit(_inspection.ask, self.pid, *parts, seconds=3.0)

    def report(self) -> dict:
        """With `moves` and `rates`, from the differences to earlier answers; raises CannotAsk."""
        if self.answer is None or not self.answer.done():
            raise _inspection.CannotAsk(_inspection._why_late(self.pid, round(time.monotonic() - self._asked, 1)))
        report, self.answer = self.answer, None
        answer = report.result()
        ended = None if answer["streams"] is None else hang.done(answer["streams"])
        moves = None if ended is None or self._streams is None else ended != self._streams
        self._streams = ended
        operators = answer["operators"]
        if operators is not None:
            if self._operators and operators["seconds"] < self._operators[-1]["seconds"]:  # the PID of another process
                self._operators.clear()
            self._operators.append(operators)
            while len(self._operators) > 2 and operators["seconds"] - self._operators[1]["seconds"] >= _WINDOW:
                self._operators.popleft()
        return answer | {"moves": moves, "rates": rates(self._operators[0], operators) if operators is not None else None}


def rates(before: dict, after: dict) -> list[dict]:
    """Of each operator launched between two answers, those that keep the card busy longest first. `busy` is the card's seconds for a
    second of time, from the mean of the launches that were measured; null when none was."""
    seconds = after["seconds"] - before["seconds"]
    calls = {launch["name"]: launch["calls"] for launch in before["launches"]}
    rows = []
    for launch in after["launches"]:
        new = launch["calls"] - calls.get(launch["name"], 0)
        if new > 0 and seconds > 0:
            mean = launch["nanoseconds"] / launch["measured"] * 1e-9 if launch["measured"] else None
            rows.append({"name": launch["name"], "kind": launch["kind"], "calls": launch["calls"], "per_second": new / seconds,
                         "busy": None if mean is None else mean * new / seconds})
    return sorted(rows, key=lambda row: (-(row["busy"] or 0), -row["per_second"]))


def _row(report: dict) -> dict:
    waits = [wait | {"group": group["name"]} for group in report["groups"] or [] for wait in group["waits"]]
    return report["process"] | {
        "name": _program(report["process"]["pid"]), "rank": hang.rank_of(report), "queue": hang.queued(report),
        "level": report["queue"]["level"], "running": None if report["streams"] is None else hang.running(report),
        "moves": report["moves"], "waits": waits, "memory": report["memory"] or [], "fallbacks": report["fallbacks"] or [],
        "operators": report["rates"]}


def _cards() -> tuple[list[dict], str | None]:
    """The cards, or why there are none."""
    import torch_npu
    from torch_npu import _C, smi

    if reason := _C.why_unavailable():
        return [], reason.strip().splitlines()[0]
    try:
        found = smi.cards()
    except RuntimeError as error:  # a card that has failed
        return [], str(error).strip().splitlines()[0]
    soft = torch_npu.is_softnpu()  # whose cards have what is free on the host
    return [{"id": card["id"], "name": card["name"], "total": round(card["total_mb"] * _MB),
             "used": round((card["used_mb"] if soft else card["total_mb"] - card["free_mb"]) * _MB),
             "processes": [{"pid": process["pid"], "name": _program(process["pid"]), "bytes": round(process["memory_mb"] * _MB)}
                           for process in card["processes"]]} for card in found], None


def _program(pid: int) -> str:
    """How it was called, without the interpreter's folder: there are many that are called python."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        words = [""]
    text = " ".join(" ".join([os.path.basename(words[0]), *words[1:]]).split()) or _inspection._name(pid)
    return text if len(text) <= _LONGEST else text[:_LONGEST - 1] + "\u2026"
