"""Runs comparisons in worker processes: a crash or a hang costs one pair and a new worker, nothing else."""

from __future__ import annotations

import json
import os
import queue
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")
START_SECONDS = 300


class Worker:
    def __init__(self, environment: dict[str, str]):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([sys.executable, WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, env=environment)
        self.receive(START_SECONDS)

    def receive(self, seconds: float) -> dict:
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise TimeoutError(f"no answer in {seconds:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self.errors.seek(0)
            raise ChildProcessError(f"exit code {code}: {self.errors.read().decode(errors='replace')[-300:]}")
        return json.loads(line)

    def ask(self, request: dict, seconds: float) -> dict:
        self.errors.seek(0)
        self.errors.truncate()
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.receive(seconds)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.errors.close()


class Comparer:
    """Compares one pair after the other in a worker process, which is replaced after a crash or a hang."""

    def __init__(self, seconds: float = 120, fallback: bool = False):
        self.seconds, self.worker = seconds, None
        self.environment = {**os.environ, "TORCH_NPU_FALLBACK_CPU_DISABLE": "0" if fallback else "1", "SOFTNPU_TRACE": "1"}

    def compare(self, op: str, dtype: str, limit: int | None, database: str = "ops") -> dict:
        """{"checks": ..., "missing": ..., "launched": ..., "seconds": ...}; at most `limit` samples of each check."""
        try:
            self.worker = self.worker or Worker(self.environment)
            return self.worker.ask({"database": database, "op": op, "dtype": dtype, "limit": limit}, self.seconds)
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
