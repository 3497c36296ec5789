"""A process that answers requests, one JSON line each: a crash or a hang of what it runs costs that process, not the one that asks.

Used by the kit's supervisor and by the sweeps of test/ops.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable

START_SECONDS = 300
_KILLED_SECONDS = 10  # a process that a driver holds may not end at once


class Worker:
    """`command` prints a line when it is ready, then one line or more for each line it reads; lines with "at" are news, not the answer."""

    def __init__(self, command: list[str], environment: dict[str, str]):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=environment,
                                        start_new_session=True)  # so that its own children end with it
        self._pending = b""
        try:
            self.receive(START_SECONDS)
        except (TimeoutError, ChildProcessError):
            self.stop()
            raise

    def receive(self, seconds: float, news: Callable[[dict], None] | None = None) -> dict:
        assert self.process.stdout
        end = time.monotonic() + seconds
        while True:
            while b"\n" in self._pending:
                line, _, self._pending = self._pending.partition(b"\n")
                answer = json.loads(line)
                if "at" not in answer:
                    return answer
                if news:
                    news(answer["at"])
            if not select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"no answer in {seconds:.0f} s")
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                raise ChildProcessError(f"{ending(self.process.wait())}: {self.last_words()}")
            self._pending += data

    def ask(self, request: dict, seconds: float, news: Callable[[dict], None] | None = None) -> dict:
        assert self.process.stdin
        self.errors.seek(0)
        self.errors.truncate()
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return self.receive(seconds, news)

    def last_words(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")[-300:]

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_KILLED_SECONDS)
        self.errors.close()


def ending(code: int) -> str:
    """"exit code 1", or "signal SIGSEGV"."""
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"
