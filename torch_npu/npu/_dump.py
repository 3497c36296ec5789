"""torch.npu.init_dump, set_dump, finalize_dump, and ACL_DUMP_DATA=1: what every operator read and wrote, as files (docs/debug.md)."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

from torch_npu import _C

if TYPE_CHECKING:
    from torch_npu.npu._dump_modules import ModuleNames

__all__ = ["finalize_dump", "init_dump", "set_dump"]

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DEFAULT_LIMIT = 16 << 30
_running = False
_modules: ModuleNames | None = None


def _size(text: str, where: str) -> int:
    found = re.fullmatch(r"(\d+) ?([KMGT]?)(i?B)?", text)
    if not found:
        raise ValueError(f"{where}: limit must be a size such as 500M or 2GiB, but is: {text}")
    return int(found[1]) * _UNITS[found[2]]


def _ranges(text: str, name: str, where: str) -> list[tuple[int, int]]:
    """'0|3-5' as [(0, 0), (3, 5)]."""
    found = []
    for part in text.split("|"):
        if not re.fullmatch(r"\d+(-\d+)?", part):
            raise ValueError(f"{where}: {name} must be numbers and ranges such as 0|3-5, but is: {text}")
        first, _, last = part.partition("-")
        found.append((int(first), int(last or first)))
    return found


def _choice(text: str, name: str, choices: tuple[str, ...], where: str) -> str:
    if text not in choices:
        raise ValueError(f"{where}: {name} must be {' or '.join(choices)}, but is: {text}")
    return text


def _parse(settings: dict[str, str], where: str) -> dict | None:
    """The arguments of _C.start_dump; None when this rank is to dump nothing."""
    known = ("path", "ops", "steps", "ranks", "mode", "data", "limit")
    for name in settings:
        if name not in known:
            raise ValueError(f"{where} has no setting {name!r}; there are {', '.join(known)}")
    rank = int(os.environ.get("RANK", "0"))
    if "ranks" in settings and not any(a <= rank <= b for a, b in _ranges(settings["ranks"], "ranks", where)):
        return None
    mode = _choice(settings.get("mode", "all"), "mode", ("all", "input", "output"), where)
    path = os.path.realpath(settings.get("path", "."))
    if not os.path.isdir(path):
        raise ValueError(f"{where}: path must be a folder, but is: {path}")
    return {
        "path": path,
        "operators": [pattern for pattern in settings.get("ops", "").split("|") if pattern],
        "steps": _ranges(settings["steps"], "steps", where) if "steps" in settings else [],
        "inputs": mode != "output",
        "outputs": mode != "input",
        "data": _choice(settings.get("data", "tensor"), "data", ("tensor", "stats"), where) == "tensor",
        "limit": _size(settings["limit"], where) if "limit" in settings else _DEFAULT_LIMIT,
    }


def _from_environment() -> dict[str, str]:
    text = os.environ.get("TORCH_NPU_DUMP", "")
    settings = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"TORCH_NPU_DUMP takes settings such as ops=*mm*,steps=0-2, but has: {part}")
        settings[name.strip()] = value.strip()
    return settings


def _from_file(path: str) -> dict[str, str]:
    """The settings of a file in the form that aclInit takes: {"dump": {"dump_path": ..., "dump_list": [...], ...}}."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        entries = dict(content["dump"])
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f'cfg_file {path} must be JSON of the form {{"dump": {{"dump_path": "...", ...}}}}') from error
    settings = {}
    names = {"dump_path": "path", "dump_mode": "mode", "dump_step": "steps", "dump_data": "data", "ranks": "ranks", "limit": "limit"}
    for name, value in entries.items():
        if name == "dump_list":
            settings["ops"] = "|".join(pattern for each in value for pattern in each.get("layer", []))
        elif name in names:
            settings[names[name]] = str(value)
        else:
            raise ValueError(f"cfg_file {path}: torch_npu's dump has no {name!r}; there are dump_list, {', '.join(names)}")
    return settings


def _start(settings: dict[str, str], where: str) -> None:
    global _running, _modules
    arguments = _parse(settings, where)
    _stop()
    _running = True
    if arguments is not None:
        from torch_npu.npu._dump_modules import ModuleNames

        _modules = ModuleNames()
        _C.start_dump(**arguments)


def _stop() -> None:
    global _running, _modules
    if _modules is not None:
        _modules.remove()
    _running, _modules = False, None
    _C.stop_dump()


def init_dump():
    """Begins a dump of what operators read and write; TORCH_NPU_DUMP says of which. ./npu_dump_<pid> is made by the first launch."""
    _start(_from_environment(), "TORCH_NPU_DUMP")


def set_dump(cfg_file):
    """Goes on with the settings of a JSON file, in a new folder. Call init_dump() first."""
    path = os.path.realpath(cfg_file)
    if not os.path.exists(path):
        raise FileNotFoundError(f"cfg_file {path} does not exist")
    if not _running:
        raise RuntimeError("there is no dump to be set; call torch.npu.init_dump() first")
    _start(_from_file(path), f"cfg_file {path}")


def finalize_dump():
    """Ends the dump. Its files are complete after every launch; without this call it lasts as long as the process."""
    if not _running:
        raise RuntimeError("there is no dump to be ended; call torch.npu.init_dump() first")
    _stop()


def start(wanted: bool) -> None:
    """At import: ACL_DUMP_DATA=1 begins a dump of an unchanged program."""
    if wanted:
        init_dump()
    else:
        _parse(_from_environment(), "TORCH_NPU_DUMP")  # a mistake is told now, not by init_dump() after an hour
