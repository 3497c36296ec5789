"""What one check found: collected in the worker process, one attempt after the other, and sent to the supervisor as JSON."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import torch

from torch_npu import npu
from torch_npu.verify.values import Difference

# From harmless to fatal; a check has the worst status of its attempts.
STATUSES = ("ok", "skipped", "near", "fallback", "wrong", "refused", "failed", "crash", "hang")
BAD = ("wrong", "refused", "failed", "crash", "hang")
_WORDS = 600  # characters of an error that are kept


class Outcome:
    """`announce` is told of each attempt before it begins, so that a crash or a hang has a name."""

    def __init__(self, announce: Callable[[dict], None]):
        self.announce = announce
        self.problems: list[dict] = []
        self.attempts, self.max_rel, self.status, self.note = 0, 0.0, "ok", ""
        self.numbers: dict[str, float] = {}  # of timings
        self.seconds = 0.0
        self._form, self._arguments = "", ""

    @contextlib.contextmanager
    def attempt(self, form: str, arguments: str = "") -> Iterator[None]:
        """A call or a few. What it raises is a problem of the check, not its end."""
        self._form, self._arguments = form, arguments
        self.announce({"form": form, "arguments": arguments})
        self.attempts += 1
        start = time.perf_counter()
        try:
            yield
            npu.synchronize()
        except Exception as error:
            self.problem("refused", f"{type(error).__name__}: {error}")
        self.seconds += time.perf_counter() - start

    def problem(self, status: str, text: str, **more: object) -> None:
        entry = {"status": status, "form": self._form, "arguments": self._arguments, "text": " ".join(text.split())[:_WORDS], **more}
        self.problems.append(entry)
        self.raise_to(status)

    def raise_to(self, status: str) -> None:
        self.status = max(self.status, status, key=STATUSES.index)

    def compared(self, difference: Difference) -> None:
        if difference.verdict == "close":
            self.max_rel = max(self.max_rel, difference.max_rel)
            return
        text = difference.text or (f"{difference.wrong} elements are off, the first {difference.first}" if difference.first else
                                   "within the wider tolerance")
        self.problem(difference.verdict, text, max_abs=difference.max_abs, max_rel=difference.max_rel)

    def as_dict(self, fallbacks: dict[str, int]) -> dict:
        if fallbacks:
            self.raise_to("fallback")
        found = {"status": self.status, "seconds": round(self.seconds, 4), "attempts": self.attempts, "max_rel": self.max_rel}
        for name in ("problems", "note", "numbers"):
            if getattr(self, name):
                found[name] = getattr(self, name)
        return found | ({"fallbacks": fallbacks} if fallbacks else {})


def is_healthy() -> bool:
    """Whether the card still computes, after a call that it refused."""
    try:
        npu.synchronize()
    except RuntimeError:
        pass  # the error that is known already
    try:
        return (torch.ones(3).to("npu") + 1).sum().item() == 6
    except RuntimeError:
        return False
