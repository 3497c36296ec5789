"""Runs checks one after the other in a worker process, which is replaced after a crash or a hang. Called by the command line."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from torch_npu.verify import checks
from torch_npu.verify.process import Worker

TIME_IS_UP = "not run: the time for all checks was up"


class Supervisor:
    def __init__(self, quick: bool, seconds: float, report: Callable[[str, dict], None]):
        self.seconds, self.report = seconds, report
        self.command = [sys.executable, "-m", "torch_npu.verify.worker", *(["--quick"] if quick else [])]
        self.environment = {**os.environ, "TORCH_NPU_FALLBACK_CPU_DISABLE": "0"}
        self.worker: Worker | None = None
        self._at: dict = {}

    def describe_machine(self) -> dict[str, str]:
        """Opens the first card. Raises OSError if it does not open."""
        try:
            self.worker = Worker(self.command, self.environment)
            return self.worker.ask({"check": ""}, self.seconds)
        except (TimeoutError, ChildProcessError, BrokenPipeError):
            self._stop()
            raise

    def run(self, names: list[str], end: float) -> None:
        """Until the monotonic time `end`; what is left then is reported as skipped."""
        try:
            for name in names:
                if time.monotonic() > end:
                    self.report(name, {"status": "skipped", "seconds": 0.0, "attempts": 0, "note": TIME_IS_UP})
                else:
                    self.report(name, self._one(name))
        finally:
            self._stop()

    def _one(self, name: str) -> dict:
        self._at = {"form": "the start of the process", "arguments": ""}
        start = time.monotonic()
        try:
            self.worker = self.worker or Worker(self.command, self.environment)
            answer = self.worker.ask({"check": name}, checks.patience(name, self.seconds), self._news)
        except (TimeoutError, ChildProcessError, BrokenPipeError) as error:
            self._stop()
            status = "hang" if isinstance(error, TimeoutError) else "crash"
            problem = {"status": status, **self._at, "text": " ".join(str(error).split())}
            return {"status": status, "seconds": round(time.monotonic() - start, 2), "attempts": 1, "problems": [problem]}
        if not answer.pop("healthy"):
            self._stop()
        return answer

    def _news(self, at: dict) -> None:
        self._at = at

    def _stop(self) -> None:
        if self.worker:
            self.worker.stop()
        self.worker = None
