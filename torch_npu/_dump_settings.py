"""The settings of a dump (docs/debug.md): those of TORCH_NPU_DUMP, and of a file in the form that aclInit takes.

Looked at before anything is loaded, so that a mistake is told by `import torch_npu` and not by init_dump() after an hour.
"""

from __future__ import annotations

import json
import os
import re

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DEFAULT_LIMIT = 16 << 30


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
        if last and int(last) < int(first):
            raise ValueError(f"{where}: {name} has {part}, a range that ends before it begins")
        found.append((int(first), int(last or first)))
    return found


def _choice(text: str, name: str, choices: tuple[str, ...], where: str) -> str:
    if text not in choices:
        raise ValueError(f"{where}: {name} must be {' or '.join(choices)}, but is: {text}")
    return text


def parse(settings: dict[str, str], where: str) -> dict | None:
    """The arguments of _C.start_dump; None when this rank is to dump nothing."""
    known = ("path", "ops", "steps", "ranks", "mode", "data", "limit")
    for name in settings:
        if name not in known:
            raise ValueError(f"{where} has no setting {name!r}; there are {', '.join(known)}")
    if "ranks" in settings:
        rank = os.environ.get("RANK") or "0"
        if not rank.isdigit():
            raise ValueError(f"{where}: ranks needs a number in the environment variable RANK, which is: {rank}")
        if not any(a <= int(rank) <= b for a, b in _ranges(settings["ranks"], "ranks", where)):
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


def of_environment() -> dict[str, str]:
    text = os.environ.get("TORCH_NPU_DUMP", "")
    settings = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"TORCH_NPU_DUMP takes settings such as ops=*mm*,steps=0-2, but has: {part}")
        settings[name.strip()] = value.strip()
    return settings


def _layers(entries, path: str) -> list[str]:
    found: list[str] = []
    for each in entries if isinstance(entries, list) else [entries]:
        patterns = each.get("layer", []) if isinstance(each, dict) else None
        if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
            raise ValueError(f'cfg_file {path}: dump_list must be of the form [{{"layer": ["mm", "aten::add"]}}]')
        found += patterns
    return found


def of_file(path: str) -> dict[str, str]:
    """The settings of a file in the form that aclInit takes: {"dump": {"dump_path": ..., "dump_list": [...], ...}}."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        entries = content["dump"]
        if not isinstance(entries, dict):
            raise TypeError
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f'cfg_file {path} must be JSON of the form {{"dump": {{"dump_path": "...", ...}}}}') from error
    settings = {}
    names = {"dump_path": "path", "dump_mode": "mode", "dump_step": "steps", "dump_data": "data", "ranks": "ranks", "limit": "limit"}
    for name, value in entries.items():
        if name == "dump_list":
            settings["ops"] = "|".join(_layers(value, path))
        elif name in names:
            settings[names[name]] = str(value)
        else:
            raise ValueError(f"cfg_file {path}: torch_npu's dump has no {name!r}; there are dump_list, {', '.join(names)}")
    return settings


def check() -> None:
    """At import."""
    if os.environ.get("ACL_DUMP_DATA") or os.environ.get("TORCH_NPU_DUMP"):
        parse(of_environment(), "TORCH_NPU_DUMP")
