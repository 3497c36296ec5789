"""softnpu's settings as arguments of Python functions. The library reads the variables once, at the first use of a device, and is the
judge of their values: it names the variable and what it expects. Here only Python's types are checked.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from softnpu import place


def _number(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    return str(value)


def _switch(name: str, value: Any) -> str:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return "1" if value else "0"


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name} must be a text, got {value!r}")
    return value


def _bytes(name: str, value: Any) -> str:
    return _text(name, value) if isinstance(value, str) else _number(name, value)


def _strict(name: str, value: Any) -> str:
    if value == "calls" or isinstance(value, bool):
        return value if value == "calls" else _switch(name, value)
    raise ValueError(f"{name} must be True, False or 'calls', got {value!r}")


def _file(name: str, value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise TypeError(f"{name} must be a file's path, got {value!r}")
    return str(Path(value).absolute())  # a program may change its folder


def _cards(name: str, value: Any) -> str:
    if isinstance(value, (str, int)):
        raise TypeError(f"{name} must be a list of cards such as [0, 3], got {value!r}")
    return ",".join(_number(name, card) for card in value)


# keyword: the variable, its value for a Python value, its default. docs/environment.md says what each does.
SETTINGS: dict[str, tuple[str, Callable[[str, Any], str], str]] = {
    "cards": ("SOFTNPU_DEVICES", _number, "8"),
    "soc": ("SOFTNPU_SOC", _text, "Ascend910B1"),
    "memory": ("SOFTNPU_MEMORY", _bytes, "the chip's"),
    "strict": ("SOFTNPU_STRICT", _strict, "0"),
    "hostile": ("SOFTNPU_HOSTILE", _number, "0"),
    "fault": ("SOFTNPU_FAULT", _text, "unset"),
    "pool": ("SOFTNPU_POOL", _text, "unset"),
    "asynchronous": ("SOFTNPU_ASYNC", _switch, "0"),
    "threads": ("SOFTNPU_THREADS", _number, "OMP_NUM_THREADS, else the usable cores"),
    "workspace": ("SOFTNPU_WORKSPACE", _text, "unset"),
    "trace": ("SOFTNPU_TRACE", _switch, "0"),
    "record": ("SOFTNPU_RECORD", _file, "unset"),
    "record_once": ("SOFTNPU_RECORD_ONCE", _switch, "0"),
    "visible": ("ASCEND_RT_VISIBLE_DEVICES", _cards, "all cards"),
    "cache_limit": ("ACLNN_CACHE_LIMIT", _number, "8192"),
    "connect_timeout": ("HCCL_CONNECT_TIMEOUT", _number, "120"),
    "exec_timeout": ("HCCL_EXEC_TIMEOUT", _number, "1800"),
}


def variables(**settings: Any) -> dict[str, str]:
    """The environment variables that say this. None leaves a setting alone."""
    found = {}
    for name, value in settings.items():
        if name not in SETTINGS:
            raise TypeError(f"softnpu has no setting {name!r}; there are {', '.join(SETTINGS)}")
        variable, text, _ = SETTINGS[name]
        if value is not None:
            found[variable] = text(name, value)
    return found


def environment(base: Mapping[str, str] | None = None, /, **settings: Any) -> dict[str, str]:
    """`base` (os.environ) with what a program needs to find softnpu, and with these settings: for subprocess.run(env=...)."""
    base = os.environ if base is None else base
    return {**base, **place.client_environment(base), **variables(**settings)}


def configure(**settings: Any) -> None:
    """Settings of this process and of those that it starts; before softnpu is loaded, so before torch is imported."""
    changed = variables(**settings)
    if changed and place.loaded():
        raise RuntimeError("softnpu is loaded in this process and has read its settings; call softnpu.configure before torch is imported")
    os.environ.update(changed)
