"""Where a profile goes: `<worker>_<pid>_<time>_ascend_pt` and the files in it. Files are 0640 in folders of 0750, whatever the umask."""

import json
import os
import re
import socket
import warnings
from datetime import datetime
from pathlib import Path

OUTPUT = "ASCEND_PROFILER_OUTPUT"
RAW = "FRAMEWORK"
TRACE = "trace.json"  # of kineto, when the recording has ended
LAUNCHES = "launches.tsv"  # while it goes on, a line for each launch that is over
EXTRAS = "host.json"  # marks and ranges of mstx, garbage collections
METADATA = "profiler_metadata.json"
SUFFIX = "_ascend_pt"


def warn(sentence: str) -> None:
    """What goes wrong in profiling is told and never stops the program."""
    warnings.warn(f"torch_npu.profiler: {sentence}", stacklevel=3)


def reason(error: BaseException) -> str:
    """One line of what went wrong."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def make(path: Path) -> Path:
    """Makes the folder and what is missing above it."""
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=0o750, exist_ok=True)
            folder.chmod(0o750)
    return path


def open_for_writing(path: Path, flags: int = os.O_TRUNC):
    """A text file, new or emptied. A symbolic link is not followed."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o640)
    os.fchmod(file, 0o640)
    return os.fdopen(file, "w", encoding="utf-8", newline="")


def write_json(path: Path, value, indent: int | None = None) -> None:
    with open_for_writing(path) as file:
        json.dump(value, file, indent=indent)


def new_profile(directory: str | None, worker: str | None) -> Path:
    """The folder of a profile that begins now, made with its raw part."""
    if directory is None:
        work = os.environ.get("ASCEND_WORK_PATH")
        directory = os.path.join(work, "profiling_data") if work else "."
    while True:
        stamp = datetime.now().strftime("%Y%m%d%H%M%S%f")[:-3]
        path = Path(directory).absolute() / f"{worker or socket.gethostname()}_{os.getpid()}_{stamp}{SUFFIX}"
        if not path.exists():  # else there is one of the same millisecond
            make(path / RAW)
            return path


def profiles_in(path: Path) -> list[Path]:
    """The folder itself if it is a profile, else the profiles in it."""
    if path.name.endswith(SUFFIX) or (path / RAW).is_dir():
        return [path]
    return sorted(entry for entry in path.iterdir() if entry.is_dir() and entry.name.endswith(SUFFIX))


def info_file(rank: int | None) -> str:
    return "profiler_info.json" if rank is None else f"profiler_info_{rank}.json"


def read_info(path: Path) -> tuple[dict, int | None]:
    """What was written about the recording, and the rank in its file name."""
    for entry in sorted(path.iterdir()):
        found = re.fullmatch(r"profiler_info(?:_(\d+))?\.json", entry.name)
        if found:
            return json.loads(entry.read_text(encoding="utf-8")), None if found[1] is None else int(found[1])
    return {}, None
