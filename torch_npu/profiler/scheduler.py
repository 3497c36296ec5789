"""Which steps are recorded: torch.profiler's actions, and its schedule under the official name and defaults."""

from torch.profiler import ProfilerAction

from torch_npu.profiler._folder import warn

__all__ = ["ProfilerAction", "Schedule"]


class Schedule:
    """Skips `skip_first` steps, then `repeat` times (0: always) waits, warms up and records. What cannot be is replaced, with a warning."""

    def __init__(self, wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0) -> None:
        self.wait = _count("wait", wait)
        self.active = _count("active", active, least=1)
        self.warmup = _count("warmup", warmup)
        self.repeat = _count("repeat", repeat)
        self.skip_first = _count("skip_first", skip_first)
        self.skip_first_wait = _count("skip_first_wait", skip_first_wait)

    def __call__(self, step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"step must not be negative, but got {step}")
        if step < self.skip_first:
            return ProfilerAction.NONE
        step -= self.skip_first
        if self.skip_first_wait:
            step += self.wait
        cycle = self.wait + self.warmup + self.active
        if self.repeat and step >= self.repeat * cycle:
            return ProfilerAction.NONE
        place = step % cycle
        if place < self.wait:
            return ProfilerAction.NONE
        if place < self.wait + self.warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE


def _count(name: str, value, least: int = 0) -> int:
    if isinstance(value, int) and value >= least:
        return int(value)
    warn(f"schedule's {name} must be an integer of at least {least}, but got {value!r}; {least} is used.")
    return least
