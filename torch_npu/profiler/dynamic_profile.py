"""Profiling a program that is running already: it calls init(folder) once and step() after each step; whoever edits
`profiler_config.json` in that folder starts a profile of the steps that it names. start(file) does the same at once.

The file is looked at no more than every two seconds, by step() itself: there is no second process. What goes wrong is one warning.
"""

import json
import time
from pathlib import Path
from typing import Any

from torch_npu.profiler import _about, _folder
from torch_npu.profiler._folder import warn
from torch_npu.profiler.experimental_config import _ExperimentalConfig
from torch_npu.profiler.profiler import ProfilerActivity, profile, tensorboard_trace_handler
from torch_npu.profiler.scheduler import Schedule

__all__ = ["init", "set_state", "start", "step"]

_FILE = "profiler_config.json"
_SECONDS = 2.0
_FLAGS = ["record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules"]
_SETTINGS = ["profiler_level", "aic_metrics", "l2_cache", "op_attr", "data_simplification", "record_op_args", "gc_detect_threshold",
             "export_type", "host_sys", "mstx", "mstx_domain_include", "mstx_domain_exclude", "sys_io", "sys_interconnection"]
_TEMPLATE = {
    "activities": ["CPU", "NPU"], "prof_dir": "./", "analyse": False, "async_mode": False, "record_shapes": False, "profile_memory": False,
    "with_flops": False, "with_modules": False, "with_stack": False, "active": 1, "warmup": 0, "start_step": 0, "is_rank": False,
    "rank_list": [], "metadata": {},
    "experimental_config": {"profiler_level": "Level0", "aic_metrics": "AiCoreNone", "l2_cache": False, "op_attr": False,
                            "gc_detect_threshold": None, "data_simplification": True, "record_op_args": False, "export_type": ["text"],
                            "mstx": False, "mstx_domain_include": [], "mstx_domain_exclude": [], "host_sys": [], "sys_io": False,
                            "sys_interconnection": False},
}

# What a file may say; null is as if it said nothing.
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("analyse", "async_mode", "is_rank", *_FLAGS), ((bool,), "true or false")),
    **dict.fromkeys(("activities", "rank_list"), ((list,), "a list")),
    **dict.fromkeys(("metadata", "experimental_config"), ((dict,), "a JSON object")),
    "prof_dir": ((str,), "a text"),
}


class _Watch:
    """The state of this process: the file, the step, the profile under way."""

    def __init__(self) -> None:
        self.file: Path | None = None
        self.seen = 0  # the file's time of change when it was last read
        self.looked = 0.0
        self.steps = 0
        self.planned: dict | None = None
        self.running: profile | None = None
        self.left = 0


_watch = _Watch()


def init(path: str) -> None:
    """Watches `path`/profiler_config.json, which is made with every setting in it when it is not there."""
    try:
        folder = _folder.make(Path(path).absolute())
        file = folder / _FILE
        if not file.exists():
            _folder.write_json(file, _TEMPLATE, indent=4)
        _watch.file, _watch.seen, _watch.planned = file, file.stat().st_mtime_ns, None
    except (OSError, TypeError, ValueError) as error:
        warn(f"dynamic_profile cannot watch {path!r}: {_folder.reason(error)}.")


def step() -> None:
    """The program's next step begins."""
    _watch.steps += 1
    if _watch.running is not None:
        _watch.running.step()
        _watch.left -= 1
        if _watch.left <= 0:
            _watch.running.stop()
            _watch.running = None
        return
    _look()
    plan = _watch.planned
    if plan is None:
        return
    first = plan.get("start_step", 0)
    if first > _watch.steps:
        return
    _watch.planned = None
    if 0 < first < _watch.steps:
        warn(f"dynamic_profile is at step {_watch.steps} already; start_step {first} of {_watch.file} is past, nothing is recorded.")
        return
    _begin(plan)


def start(config_path: str | None = None) -> None:
    """Profiles the next steps as the file says, or the watched one; its start_step does not count."""
    if _watch.running is not None:
        warn("dynamic_profile is already recording; this start() is ignored.")
        return
    file = Path(config_path) if config_path else _watch.file
    if file is None:
        warn("dynamic_profile.start() needs a file, or init() before it.")
        return
    plan = _read(file)
    if plan is not None:
        _begin(plan)


def set_state(state_step: dict) -> None:
    """Goes on counting where a program that was restarted had stopped: {"cur_step": 100}."""
    if not isinstance(state_step, dict) or not isinstance(state_step.get("cur_step"), int):
        warn(f"dynamic_profile.set_state takes {{'cur_step': a number}}, but got {state_step!r}; ignored.")
        return
    _watch.steps = state_step["cur_step"]


def _look() -> None:
    now = time.monotonic()
    if _watch.file is None or now - _watch.looked < _SECONDS:
        return
    _watch.looked = now
    try:
        changed = _watch.file.stat().st_mtime_ns
    except OSError:  # it is being replaced
        return
    if changed != _watch.seen:
        _watch.seen = changed
        _watch.planned = _read(_watch.file)


def _read(file: Path) -> dict | None:
    try:
        plan = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        warn(f"dynamic_profile cannot read {file}: {_folder.reason(error)}.")
        return None
    wrong = _wrong(plan)
    if wrong:
        warn(f"dynamic_profile does not take {file}: {wrong}.")
        return None
    return plan


def _wrong(plan) -> str | None:
    if not isinstance(plan, dict):
        return "it must be a JSON object"
    for name, least in (("active", 1), ("warmup", 0), ("start_step", 0)):
        value = plan.get(name, least)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            return f"{name} must be an integer of at least {least}"
    if unknown := sorted(set(plan) - set(_TEMPLATE) - {"is_valid"}):
        return f"there is no setting {unknown[0]!r}"
    for name, (kinds, what) in _KINDS.items():
        if not isinstance(plan.get(name), (*kinds, type(None))):
            return f"{name} must be {what}"
    if not all(isinstance(entry, str) for entry in plan.get("activities") or []):
        return "activities must be a list of texts"
    if unknown := sorted(set(plan.get("experimental_config") or {}) - set(_SETTINGS)):
        return f"experimental_config has no setting {unknown[0]!r}"
    return None


def _concerns_this_rank(plan: dict) -> bool:
    return not plan.get("is_rank") or (_about.rank() or 0) in (plan.get("rank_list") or [])


def _begin(plan: dict) -> None:
    if not _concerns_this_rank(plan):
        return
    settings = {name: value for name, value in (plan.get("experimental_config") or {}).items() if value is not None}
    from torch_npu.profiler.experimental_config import AiCMetrics

    settings["aic_metrics"] = getattr(AiCMetrics, str(settings.get("aic_metrics")), settings.get("aic_metrics", AiCMetrics.AiCoreNone))
    for name in ("host_sys", "mstx_domain_include", "mstx_domain_exclude"):
        settings[name] = settings.get(name) or None
    flags: dict[str, Any] = {name: plan.get(name) or False for name in _FLAGS}
    names = [name.removeprefix("ProfilerActivity.") for name in plan.get("activities") or ["CPU", "NPU"]]
    recording = profile(
        activities=[getattr(ProfilerActivity, name, name) for name in names],
        schedule=Schedule(wait=0, warmup=plan.get("warmup", 0), active=plan.get("active", 1), repeat=1),
        on_trace_ready=tensorboard_trace_handler(plan.get("prof_dir") or "./", analyse_flag=bool(plan.get("analyse", False)),
                                                 async_mode=bool(plan.get("async_mode", False))),
        experimental_config=_ExperimentalConfig(**settings), **flags)
    recording.start()
    if not recording.is_running:
        return
    for key, value in (plan.get("metadata") or {}).items():
        recording.add_metadata_json(str(key), json.dumps(value))
    _watch.running, _watch.left = recording, plan.get("active", 1) + plan.get("warmup", 0)


