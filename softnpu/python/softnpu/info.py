"""What a program would get here: cards, memory, chip, settings, versions. Asked of the library itself, which needs no torch for that."""

import ctypes
import difflib
import os
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from softnpu import place
from softnpu.settings import SETTINGS

_HBM = 1  # aclrtMemAttr of a card's own memory


class Refused(RuntimeError):
    """What softnpu says about its settings, in one sentence."""


def _message(runtime: ctypes.CDLL) -> str:
    runtime.aclGetRecentErrMsg.restype = ctypes.c_char_p
    return (runtime.aclGetRecentErrMsg() or b"").decode(errors="replace").strip()


def _checked(runtime: ctypes.CDLL, function: str, *arguments: Any) -> None:
    code = getattr(runtime, function)(*arguments)
    if code:
        raise Refused(_message(runtime) or f"{function} returned {code}")


def check_settings() -> ctypes.CDLL:
    """Lets softnpu judge the environment; raises Refused with its sentence."""
    record = os.environ.pop("SOFTNPU_RECORD", None)  # what is asked here is no call of a program's
    runtime = place.open_runtime()
    if record is not None:
        os.environ["SOFTNPU_RECORD"] = record
    _checked(runtime, "aclInit", None)
    count = ctypes.c_uint32()
    _checked(runtime, "aclrtGetDeviceCount", ctypes.byref(count))
    return runtime


def cards(runtime: ctypes.CDLL) -> list[dict[str, Any]]:
    count = ctypes.c_uint32()
    _checked(runtime, "aclrtGetDeviceCount", ctypes.byref(count))
    found = []
    for card in range(count.value):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        _checked(runtime, "aclrtSetDevice", card)
        _checked(runtime, "aclrtGetMemInfo", _HBM, ctypes.byref(free), ctypes.byref(total))
        found.append({"id": card, "free_bytes": free.value, "total_bytes": total.value})
        _checked(runtime, "aclrtResetDevice", card)
    return found


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _strictness(value: str) -> str:
    return {"1": "calls and data types", "calls": "calls"}.get(value, "off")


def collect() -> dict[str, Any]:
    runtime = check_settings()
    runtime.aclrtGetSocName.restype = ctypes.c_char_p
    settings = {variable: {"value": os.environ.get(variable) or None, "default": default} for variable, _, default in SETTINGS.values()}
    torch_folder = place.torch_folder()
    return {
        "softnpu": _version_of("softnpu"),
        "toolkit": str(place.toolkit()),
        "torch": _version_of("torch"),
        "torch_folder": str(torch_folder) if torch_folder else None,
        "torch_npu": _version_of("torch-npu"),
        "soc": runtime.aclrtGetSocName().decode(),
        "strict": _strictness(os.environ.get("SOFTNPU_STRICT", "")),
        "cards": cards(runtime),
        "operators": len(place.operators()),
        "settings": settings,
        "unknown_settings": unknown_settings(),
    }


def unknown_settings() -> dict[str, str | None]:
    """Variables named SOFTNPU_... that nothing reads, each with the nearest name."""
    known = [variable for variable, _, _ in SETTINGS.values() if variable.startswith("SOFTNPU_")]
    unknown = [name for name in sorted(os.environ) if name.startswith("SOFTNPU_") and name not in known]
    return {name: next(iter(difflib.get_close_matches(name, known, 1)), None) for name in unknown}


def text(found: dict[str, Any]) -> str:
    count, gib = len(found["cards"]), 1 << 30
    lines = [f"softnpu {found['softnpu'] or '(checkout)'} in {found['toolkit']}"]
    if count:
        sizes = {card["total_bytes"] for card in found["cards"]}
        size = f"{min(sizes) / gib:.1f}" if len(sizes) == 1 else f"{min(sizes) / gib:.1f} to {max(sizes) / gib:.1f}"
        lines.append(f"cards: {count} {found['soc']} of {size} GiB")
    else:
        lines.append("cards: none, SOFTNPU_DEVICES or ASCEND_RT_VISIBLE_DEVICES says so")
    lines.append(f"strict: {found['strict']}")
    where = f"torch {found['torch']} in {found['torch_folder']}" if found["torch_folder"] else "the torch that a client has loaded"
    lines.append(f"operators: {found['operators']}; they compute with {where}")
    lines.append(f"client: torch-npu {found['torch_npu']}" if found["torch_npu"] else "client: torch-npu is not installed here")
    active = [f"  {name}={entry['value']} (default {entry['default']})" for name, entry in found["settings"].items() if entry["value"]]
    lines += ["settings:", *active] if active else ["settings: all as by default"]
    for name, near in found["unknown_settings"].items():
        lines.append(f"nothing reads {name}" + (f"; {near} is meant?" if near else ""))
    return "\n".join(lines)
