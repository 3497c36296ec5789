"""torch_npu.profiler.profile: torch.profiler.profile, whose trace is written as a folder `*_ascend_pt`.

What goes wrong in profiling, from a second profiler to a full disk, is one warning, and the program goes on without a profile.
"""

import atexit
import enum
import gzip
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerAction

from torch_npu import (
    _C,
    npu as _npu,
)
from torch_npu.profiler import _about, _folder
from torch_npu.profiler._folder import warn
from torch_npu.profiler._listeners import Listeners
from torch_npu.profiler.experimental_config import ProfilerLevel, _ExperimentalConfig, supported_export_type

__all__ = ["analyse", "profile", "supported_activities", "tensorboard_trace_handler"]

_METADATA_LIMIT = 50 * 1024


class ProfilerActivity(enum.Enum):
    """What is watched: operators on the host, launches on the card."""

    CPU = 1
    NPU = 2


def supported_activities() -> set[ProfilerActivity]:
    """Both."""
    return set(ProfilerActivity)


class _TraceHandler:
    """What tensorboard_trace_handler returns: the profile looks here for its folder when it begins to record."""

    def __init__(self, directory: str | None, worker: str | None, analyse_flag: bool, async_mode: bool):
        self.directory, self.worker, self.analyse_flag, self.async_mode = directory, worker, analyse_flag, async_mode

    def __call__(self, profiler: "profile") -> None:
        if not isinstance(profiler, profile):
            warn("tensorboard_trace_handler takes profiles of torch_npu.profiler.profile; this one is not written.")
            return
        if profiler.folder is None or not self.analyse_flag:
            return
        if self.async_mode:
            _analyse_beside(profiler.folder)
        else:
            _analyse([profiler.folder], None)


def tensorboard_trace_handler(dir_name: str | None = None, worker_name: str | None = None, analyse_flag: bool = True,
                              async_mode: bool = False):
    """An on_trace_ready that writes `*_ascend_pt` folders below `dir_name` (ASCEND_WORK_PATH, else the working directory).

    With async_mode a process of its own turns the raw data into tables while the program goes on; without analyse_flag analyse() has to.
    """
    if dir_name is not None and (not isinstance(dir_name, str) or not dir_name):
        warn(f"dir_name must be a path, but got {dir_name!r}; the working directory is used.")
        dir_name = None
    if worker_name is not None and (not isinstance(worker_name, str) or not worker_name or len(worker_name) > 226 or "/" in worker_name):
        warn(f"worker_name must be a text of up to 226 characters without '/', but got {worker_name!r}; the host's name is used.")
        worker_name = None
    return _TraceHandler(dir_name, worker_name, _bool("analyse_flag", analyse_flag, True), _bool("async_mode", async_mode, False))


class profile(torch.profiler.profile):
    """Records while it is entered, or from start() to stop(); step() after each step of the program.

    `folder` is where the last recording was written. Without on_trace_ready the raw data is written, for analyse().
    """

    _active: "profile | None" = None

    def __init__(self, *, activities: Iterable | None = None, schedule: Callable[[int], ProfilerAction] | None = None,
                 on_trace_ready: Callable | None = None, record_shapes: bool = False, profile_memory: bool = False,
                 with_stack: bool = False, with_flops: bool = False, with_modules: bool = False,
                 experimental_config: _ExperimentalConfig | None = None, execution_trace_observer=None,
                 custom_trace_id_callback: Callable[[], str] | None = None, use_cuda: bool | None = None):
        if use_cuda is not None:
            warn("use_cuda has no meaning for an npu; ignored.")
        if experimental_config is not None and not isinstance(experimental_config, _ExperimentalConfig):
            warn("experimental_config must be torch_npu.profiler._ExperimentalConfig; the default is used.")
            experimental_config = None
        if on_trace_ready is not None and not callable(on_trace_ready):
            warn("on_trace_ready must be callable; ignored.")
            on_trace_ready = None
        if schedule is not None and not callable(schedule):
            warn("schedule must be callable; every step is recorded.")
            schedule = None
        self.config = experimental_config or _ExperimentalConfig()
        self.watched = _watched(activities)
        self.folder: Path | None = None
        self._owner: tuple[int, threading.Thread] | None = None  # process and thread that record: the state of torch's profiler is theirs
        self._launches_file: int | None = None
        self._error: RuntimeError | None = None
        self._saved: Path | None = None  # the raw trace of the last recording, once it was written
        self._listeners: Listeners | None = None
        self._extra_metadata: dict[str, object] = {}
        flags = {"record_shapes": record_shapes, "profile_memory": profile_memory, "with_stack": with_stack, "with_flops": with_flops,
                 "with_modules": with_modules}
        self._flags: dict[str, Any] = {name: _bool(name, value, False) for name, value in flags.items()}
        super().__init__(activities=_of_torch(self.watched, self.config), schedule=schedule, on_trace_ready=on_trace_ready,
                         execution_trace_observer=execution_trace_observer, custom_trace_id_callback=custom_trace_id_callback,
                         **self._flags)
        self._user_schedule = schedule
        self.record_steps = True

    @property
    def is_running(self) -> bool:
        return self._owner is not None and self._owner[0] == os.getpid()

    # ---- From start to stop. Nothing here raises for a reason of profiling ----

    def start(self) -> None:
        active = profile._active
        if active is not None and active.is_running and not active._is_orphan():
            which = "This profiler" if active is self else "Another profiler"
            warn(f"{which} is already running; this start() is ignored.")
            return
        if torch.autograd._profiler_enabled():
            warn("torch.profiler is already running; this start() is ignored.")
            return
        try:
            super().start()
        except RuntimeError as error:
            warn(f"Profiling cannot begin: {_folder.reason(error)}; the program goes on without it.")
            self._forget()
            return
        profile._active, self._owner = self, (os.getpid(), threading.current_thread())
        atexit.register(self._end_with_program)

    def step(self) -> None:
        if not self._may("step"):
            return
        self._write_launches()
        super().step()
        self._raise_error()

    def stop(self) -> None:
        if not self._may("stop"):
            return
        self._owner = profile._active = None
        atexit.unregister(self._end_with_program)
        try:
            super().stop()
        finally:
            self._forget()
        self._raise_error()

    def _end_with_program(self) -> None:
        """A profile that nobody has stopped is written; torch crashes when one still records while it is unloaded."""
        if self._owner == (os.getpid(), threading.current_thread()):
            self.stop()

    def _is_orphan(self) -> bool:
        """Whether the thread that alone could end the recording has ended before it."""
        if self._owner is None or self._owner[1].is_alive():
            return False
        warn("The thread that started the last profile has ended without stopping it; that profile is lost.")
        atexit.unregister(self._end_with_program)
        _C.set_recording_thread(False)
        self._owner = profile._active = None
        self._forget()
        return True

    def _raise_error(self) -> None:
        """Of work of the card, which is raised where it is waited for; here after the profile was written."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _may(self, what: str) -> bool:
        if not self.is_running:
            warn(f"The profiler is not running; this {what}() is ignored.")
        elif self._owner != (os.getpid(), threading.current_thread()):
            warn(f"Another thread has started this profiler, and only that one can {what} it; this {what}() is ignored.")
        else:
            return True
        return False

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        if self.is_running:
            try:
                super().__exit__(exc_type, exc_val, exc_tb)
            except torch.AcceleratorError:
                if exc_type is None:  # else the block's own error is on its way
                    raise

    def start_trace(self) -> None:
        self._open_folder()
        self._listeners = Listeners(self.config.takes_domain if self.config.tx_enabled else None, self.config.gc_detect_threshold)
        super().start_trace()
        _C.set_recording_thread(True)
        self._listeners.start()

    def stop_trace(self) -> None:
        _C.set_recording_thread(False)
        if _npu.is_initialized() and not _npu._is_in_bad_fork():
            try:
                _npu.synchronize()  # torch does so too, and would leave its profiler on if that fails
            except RuntimeError as error:
                self._error = error
        super().stop_trace()
        extras = self._listeners.stop() if self._listeners else {}
        self._listeners = None
        if self.folder is None:
            return
        try:
            self._write_trace(extras)
        except (OSError, RuntimeError) as error:
            warn(f"The profile could not be written to {self.folder}: {_folder.reason(error)}.")
        self._close_launches()

    # ---- The folder ----

    def _open_folder(self) -> None:
        self.folder = self._saved = None
        handler = self.on_trace_ready
        if handler is not None and not isinstance(handler, _TraceHandler):
            return  # the user's own function takes what it wants
        directory, worker = (handler.directory, handler.worker) if handler else (None, None)
        try:
            folder = _folder.new_profile(directory, worker)
            _folder.write_json(folder / _folder.info_file(_about.rank()), self._info(), indent=4)
            with _folder.open_for_writing(folder / _folder.RAW / _folder.LAUNCHES) as file:
                self._launches_file = os.dup(file.fileno())
        except (OSError, ValueError) as error:  # ValueError: a path with a null byte
            warn(f"The profile cannot be written below {directory or os.getcwd()}: {_folder.reason(error)}; it is kept in memory only.")
            self._close_launches()
            return
        self.folder = folder

    def _write_launches(self) -> None:
        """What a program that is killed leaves behind."""
        if self._launches_file is None:
            return
        count, error = _C.write_finished_launches(self._launches_file)
        if count < 0:
            warn(f"The launches of this step could not be written to {self.folder}: {os.strerror(error)}.")
            self._close_launches()

    def _close_launches(self) -> None:
        if self._launches_file is not None:
            os.close(self._launches_file)
            self._launches_file = None

    def _write_trace(self, extras: dict) -> None:
        assert self.folder is not None and self.profiler is not None
        raw = self.folder / _folder.RAW
        _folder.write_json(self.folder / _folder.info_file(_about.rank()), self._info() | {"end_info": _about.end()}, indent=4)
        _folder.write_json(self.folder / _folder.METADATA, self._extra_metadata | _about.groups() | {"trace_id": self.get_trace_id()})
        _folder.write_json(raw / _folder.EXTRAS, extras)
        part = raw / (_folder.TRACE + ".part")
        _folder.open_for_writing(part).close()
        assert self.profiler.kineto_results is not None
        if self.profiler.kineto_results.trace_start_ns() == 0:
            raise RuntimeError("another profiler was started while it recorded, and has ended it")
        self.profiler.kineto_results.save(str(part))
        if not _is_whole(part):  # kineto does not say when a write fails
            part.unlink()
            raise OSError("the disk is full, or takes no file of this size")
        part.chmod(0o640)
        self._saved = part.rename(raw / _folder.TRACE)

    def _forget(self) -> None:
        """Leaves nothing behind that a failed start or stop has begun."""
        self._close_launches()
        if self._listeners is not None:
            self._listeners.stop()
            self._listeners = None

    def _info(self) -> dict:
        plan = getattr(self._user_schedule, "__dict__", None) or None
        common = {"activities": [str(entry) for entry in self.watched], "schedule": plan, **self._flags}
        rank = _about.rank()
        return {
            "config": {"common_config": common, "experimental_config": dict(vars(self.config))},
            "start_info": {"start_time_ns": time.time_ns(), "start_monotonic_ns": time.monotonic_ns()},
            "torch_npu_version": sys.modules["torch_npu"].__version__,
            "cann_version": str(getattr(torch.version, "cann", None)),
            "device_name": _npu.get_device_name() if _npu.is_available() else "",
            "host_name": socket.gethostname(), "host_uid": _about.host_number(),
            **({} if rank is None else {"rank_id": rank}),
        }

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """The timeline alone, as torch writes it. kineto gives a recording away once, which a folder has then."""
        if self._saved is None or use_python_export:
            super().export_chrome_trace(path, use_python_export)
            return
        if not self._saved.exists():
            raise RuntimeError(f"The recording was written to {self.folder}, and its raw data removed by the analysis: take "
                               "trace_view.json there, or record with _ExperimentalConfig(data_simplification=False)")
        data = self._saved.read_bytes()
        Path(path).write_bytes(gzip.compress(data) if str(path).endswith(".gz") else data)

    # ---- The official additions ----

    def add_metadata(self, key: str, value: str) -> None:
        """A text that stands in profiler_metadata.json."""
        self._add_metadata(key, value, value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """The same for JSON, given as a text."""
        try:
            self._add_metadata(key, value, json.loads(value))
        except (TypeError, ValueError) as error:
            warn(f"The metadata {key!r} is not JSON: {_folder.reason(error)}; ignored.")

    def _add_metadata(self, key: str, text: str, value: object) -> None:
        if not isinstance(key, str) or not isinstance(text, str) or not key or len(text) > _METADATA_LIMIT:
            warn(f"Metadata must be texts, the value of up to {_METADATA_LIMIT} characters; {key!r} is ignored.")
            return
        self._extra_metadata[key] = value

    @classmethod
    def enable_profiler_in_child_thread(cls, record_shapes: bool = False, profile_memory: bool = False, with_stack: bool = False,
                                        with_flops: bool = False, with_modules: bool = False) -> None:
        """Records the operators of the calling thread too; launches always are.

        The settings are those of the profile that is running: record_shapes, profile_memory, with_stack, with_flops and with_modules
        of a thread are not read.
        """
        cls._join(True)

    @classmethod
    def disable_profiler_in_child_thread(cls) -> None:
        """Before a thread that called enable_profiler_in_child_thread() ends."""
        cls._join(False)

    @staticmethod
    def _join(enable: bool) -> None:
        if not _C.join_recording(enable):
            warn("No profile is running that this thread takes part in; ignored.")


def analyse(profiler_path: str, max_process_number: int = 1, export_type: str | list | None = None) -> None:
    """Turns raw data into tables, timeline and databases: of one `*_ascend_pt` folder, or of all below the path.

    Profiles are taken one after the other, or by as many as `max_process_number` processes.
    """
    if not isinstance(max_process_number, int) or isinstance(max_process_number, bool) or max_process_number < 1:
        warn(f"max_process_number must be at least 1, but got {max_process_number!r}; 1 is used.")
        max_process_number = 1
    types = [export_type] if isinstance(export_type, str) else export_type
    if types is not None and not (isinstance(types, list) and set(types) <= supported_export_type()):
        warn(f"export_type must be 'text', 'db' or a list of them, but got {export_type!r}; what was asked for when recording is used.")
        types = None
    try:
        found = _folder.profiles_in(Path(profiler_path).absolute())
    except (OSError, TypeError, ValueError) as error:
        warn(f"There is no folder of profiles {profiler_path!r}: {_folder.reason(error)}.")
        return
    if not found:
        warn(f"{profiler_path} has no profile: there is no folder *{_folder.SUFFIX} in it.")
        return
    _analyse(found, types, max_process_number)


def _analyse(folders: list[Path], types: list[str] | None, processes: int = 1) -> None:
    from torch_npu.profiler.analysis import analyse_profile

    if processes == 1 or len(folders) == 1:
        for folder in folders:
            analyse_profile(folder, types)
        return
    for process in [_start_analysis(folders[place::processes], types) for place in range(min(processes, len(folders)))]:
        process.wait()


_beside: list[subprocess.Popen] = []  # analyses that were left running: asked for their end when the next one starts


def _analyse_beside(folder: Path) -> None:
    """In a process that outlives this one if need be."""
    _beside[:] = [process for process in _beside if process.poll() is None]
    _beside.append(_start_analysis([folder], None))


def _start_analysis(folders: list[Path], types: list[str] | None) -> subprocess.Popen:
    """Not by multiprocessing, which would run the program's main file again."""
    code = ("import json, sys; from pathlib import Path; from torch_npu.profiler.analysis import analyse_profile\n"
            "for folder in sys.argv[2:]: analyse_profile(Path(folder), json.loads(sys.argv[1]))")
    command = [sys.executable, "-c", code, json.dumps(types), *map(str, folders)]
    return subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL)


def _watched(activities) -> list[ProfilerActivity]:
    """The npu's names, or torch's; in the order CPU, NPU."""
    if activities is None:
        return list(ProfilerActivity)
    torchs = torch.profiler.ProfilerActivity
    meanings = {torchs.CPU: ProfilerActivity.CPU, torchs.PrivateUse1: ProfilerActivity.NPU, torchs.CUDA: ProfilerActivity.NPU}
    found = set()
    if not isinstance(activities, Iterable):
        activities = [activities]
    for entry in activities:
        meaning = entry if isinstance(entry, ProfilerActivity) else meanings.get(entry)
        if meaning is None:
            warn(f"There is no activity {entry!r} on an npu; ignored.")
        else:
            found.add(meaning)
    if not found:
        warn("No activity is left to be watched; CPU and NPU are.")
    return [entry for entry in ProfilerActivity if entry in found or not found]


def _of_torch(watched: list[ProfilerActivity], config: _ExperimentalConfig) -> list:
    torchs = torch.profiler.ProfilerActivity
    chosen = {ProfilerActivity.CPU: torchs.CPU, ProfilerActivity.NPU: torchs.PrivateUse1}
    if _npu._is_in_bad_fork():
        warn("The card belongs to the process that this one was forked from; only the CPU is watched.")
        watched = [ProfilerActivity.CPU]
    if config.profiler_level == ProfilerLevel.Level_none:
        watched = [ProfilerActivity.CPU]
    return [chosen[entry] for entry in watched]


def _bool(name: str, value, default: bool) -> bool:
    if isinstance(value, bool):
        return value
    if value is not None:
        warn(f"{name} must be True or False, but got {value!r}; {default} is used.")
    return default




def _is_whole(file: Path) -> bool:
    with file.open("rb") as content:
        content.seek(max(0, file.stat().st_size - 16))
        return content.read().rstrip().endswith(b"}")
