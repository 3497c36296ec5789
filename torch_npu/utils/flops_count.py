"""Counting floating-point operations of a program: upstream's counter under the official plugin's name."""

from __future__ import annotations

from torch.utils.flop_counter import FlopCounterMode

__all__ = ["FlopsCounter"]


class FlopsCounter:
    """start(), run the program on the same thread, get_flops(): products, convolutions and attention, forward and backward.

    Between pause() and resume() operations are run through but not recorded. stop() ends and forgets.
    """

    def __init__(self):
        self._mode: FlopCounterMode | None = None
        self._skipped = 0  # run through while paused
        self._paused_at: int | None = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stop()

    def start(self):
        if self._mode is not None:
            raise RuntimeError("FlopsCounter.start() was called before; call stop() first")
        self._mode, self._skipped, self._paused_at = FlopCounterMode(display=False), 0, None
        self._mode.__enter__()

    def stop(self):
        self._running().__exit__(None, None, None)
        self._mode = None

    def pause(self):
        if self._paused_at is None:
            self._paused_at = self._running().get_total_flops()

    def resume(self):
        self._running()
        if self._paused_at is not None:
            self._skipped += self._running().get_total_flops() - self._paused_at
            self._paused_at = None

    def get_flops(self):
        """[recorded, run through]: the second includes what ran while paused."""
        total = self._running().get_total_flops()
        paused = total - self._paused_at if self._paused_at is not None else 0
        return [total - self._skipped - paused, total]

    def _running(self) -> FlopCounterMode:
        if self._mode is None:
            raise RuntimeError("FlopsCounter is not running: call start() first")
        return self._mode
