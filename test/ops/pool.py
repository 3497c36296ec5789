"""Runs comparisons in worker processes: a crash or a hang costs one pair and a new worker, nothing else."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable

from torch_npu.verify.process import Worker

COMMAND = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")]


class Comparer:
    """Compares one pair after the other in a worker process, which is replaced after a crash or a hang."""

    def __init__(self, seconds: float = 120, fallback: bool = False):
        self.seconds, self.worker = seconds, None
        self.environment = {**os.environ, "TORCH_NPU_FALLBACK_CPU_DISABLE": "0" if fallback else "1", "SOFTNPU_TRACE": "1"}

    def compare(self, op: str, dtype: str, limit: int | None, database: str = "ops", tolerances: dict[str, float] | None = None) -> dict:
        """{"checks": ..., "missing": ..., "launched": ..., "seconds": ...}; at most `limit` samples of each check. `tolerances` (atol,
        rtol) are in place of the database's."""
        try:
            self.worker = self.worker or Worker(COMMAND, self.environment)
            return self.worker.ask({"database": database, "op": op, "dtype": dtype, "limit": limit, "tolerances": tolerances}, self.seconds)
        except (TimeoutError, ChildProcessError, BrokenPipeError) as error:
            self.stop()
            failure = {"status": "hang" if isinstance(error, TimeoutError) else "crash", "samples": 0, "detail": str(error), "random": 0}
            return {"checks": {"forward": failure}, "missing": [], "launched": [], "seconds": 0}

    def stop(self) -> None:
        if self.worker:
            self.worker.stop()
        self.worker = None


def run(pairs: Iterable[tuple[str, str]], limit: int | None, workers: int, seconds: float = 120, fallback: bool = False,
        report: Callable[[str, str, dict], None] | None = None, database: str = "ops") -> dict[tuple[str, str], dict]:
    """Answers by (operator, dtype name), several pairs at a time."""
    waiting: queue.SimpleQueue = queue.SimpleQueue()
    for pair in pairs:
        waiting.put(pair)
    answers: dict[tuple[str, str], dict] = {}

    def serve() -> None:
        comparer = Comparer(seconds, fallback)
        while True:
            try:
                op, dtype = waiting.get_nowait()
            except queue.Empty:
                break
            answers[op, dtype] = comparer.compare(op, dtype, limit, database)
            if report:
                report(op, dtype, answers[op, dtype])
        comparer.stop()

    threads = [threading.Thread(target=serve) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers
