"""Which versions of CANN, torch and Python fit together: torch_npu/compatibility.json, asked. Touches no card."""

from __future__ import annotations

import functools
import json
import platform
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import torch as _torch

_FILE = Path(__file__).parents[1] / "compatibility.json"


class Compatibility(NamedTuple):
    """Truth is `fits`; `reason` is one sentence; `rows` the published pairings that agree with what was asked."""

    fits: bool
    reason: str
    rows: tuple[dict, ...]

    def __bool__(self) -> bool:
        return self.fits


@functools.cache
def table() -> dict:
    """compatibility.json."""
    return json.loads(_FILE.read_text())


def compatibility(cann: str | None = None, torch: str | None = None, python: str | None = None) -> Compatibility:
    """Whether versions were published together, for example compatibility(cann="8.5.0", torch="2.9.0", python="3.11").

    Without arguments it asks about this machine: torch, Python, and CANN if that is the runtime. What is left out is not asked about.
    """
    if cann is torch is python is None:
        torch, python = _torch.__version__, platform.python_version()
        from torch_npu import _C

        cann = _C.cann_version() if _C.is_available() and not _C.is_softnpu() else None
    for name, value in (("cann", cann), ("torch", torch), ("python", python)):
        if value is not None and not (isinstance(value, str) and re.match(r"\d+\.\d+", value)):
            raise ValueError(f'{name} must be a version such as "{_EXAMPLES[name]}", but got {value!r}')
    torch = torch.partition("+")[0] if torch else None
    python = ".".join(python.split(".")[:2]) if python else None
    rows = [row for row in table()["pairing"] if (torch is None or row["torch"] == torch) and (cann is None or _same(row["cann"], cann))]
    if not rows:
        return Compatibility(False, _unpaired(cann, torch), ())
    fitting = [row for row in rows if python is None or python in table()["python"].get(row["torch"], ())]
    if not fitting:
        versions = sorted({version for row in rows for version in table()["python"].get(row["torch"], ())}, key=_numbers)
        wheels = f"Python {', '.join(versions)}" if versions else "no Python version that is known"
        return Compatibility(False, f"torch_npu for torch {rows[0]['torch']} was published for {wheels}, not for {python}", ())
    adapters = ", ".join(dict.fromkeys(row["adapter"] for row in fitting))
    return Compatibility(True, f"published together; torch_npu {adapters}", tuple(fitting))


_EXAMPLES = {"cann": "8.5.0", "torch": "2.13.0", "python": "3.11"}


def _same(published: str, given: str) -> bool:
    """8.3.RC1 is 8.3.RC1, 8.3.rc1 and 8.3.RC1.alpha001; not 8.3.RC2."""
    return re.match(re.escape(published) + r"(?![0-9])", given, re.IGNORECASE) is not None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _unpaired(cann: str | None, torch: str | None) -> str:
    pairing = table()["pairing"]
    if torch is not None and (published := [row["cann"] for row in pairing if row["torch"] == torch]):
        return f"torch {torch} was published with CANN {', '.join(dict.fromkeys(published))}" + (f", not with {cann}" if cann else "")
    if cann is not None and (published := [row["torch"] for row in pairing if _same(row["cann"], cann)]):
        return f"CANN {cann} was published with torch {', '.join(dict.fromkeys(published))}" + (f", not with {torch}" if torch else "")
    known = " and ".join(f"{name} {value}" for name, value in (("CANN", cann), ("torch", torch)) if value)
    return f"{known} is in no published pairing; docs/maintenance.md lists those"


@functools.cache  # once for each version
def warn_if_unpaired(cann: str) -> None:
    """Called when CANN is first used."""
    answer = compatibility(cann=cann, torch=_torch.__version__) if re.match(r"\d+\.\d+", cann) else None
    if answer is not None and not answer:
        warnings.warn(f"{answer.reason}: operators may be missing or differ; docs/maintenance.md says which versions fit", stacklevel=3)
