"""The report: one text file that a person reads from the top, with the same as JSON below a line that says so."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from pathlib import Path

from torch_npu.verify.checks import FAMILIES
from torch_npu.verify.outcome import BAD, STATUSES

TITLE = "torch_npu verification report"
_DATA = "==== the same for programs: JSON, to the end of the file ===="
_FORMAT = 1
_LONGEST = 40  # problems and names that are shown; the rest is in the data


class ReportError(ValueError):
    """A file that is no report, or cannot be written."""


def make(machine: dict[str, str], checks: dict[str, dict], **more: object) -> dict:
    """`checks` are the outcomes by name."""
    return {"format": _FORMAT, "machine": machine, **more, "checks": checks}


def bad(report: dict) -> list[str]:
    return [name for name, check in report["checks"].items() if check["status"] in BAD]


def verdict(report: dict) -> str:
    counts = Counter(check["status"] for check in report["checks"].values())
    found = ", ".join(f"{counts[status]} {status}" for status in reversed(STATUSES) if counts[status] and status in BAD)
    ran = len(report["checks"]) - counts["skipped"]
    ended = f" (ended early: {report['ended']})" if report.get("ended") else ""
    return (f"{len(bad(report))} PROBLEMS in {ran} checks: {found}" if found else f"NO PROBLEM in {ran} checks") + ended


def text(report: dict) -> str:
    machine = report["machine"]
    lines = [TITLE, "=" * len(TITLE), f"{verdict(report)}",
             f"{machine['provider']} {machine['CANN']}, {machine['SoC']}, {machine['cards']}; torch_npu {machine['torch_npu']}",
             f"{report['date']}, {report['seconds']:.0f} s{', quick form' if report['quick'] else ''}", "", *_table(report)]
    for part in (_problems, _fallbacks, _near, _skipped, _timings):
        lines += part(report)
    lines += ["Machine", *(f"  {name:20} {value}" for name, value in machine.items())]
    return "\n".join(lines) + "\n"


def _table(report: dict) -> list[str]:
    lines = [f"{'':24}{'checks':>8}{'ok':>7}{'near':>7}{'on CPU':>8}{'bad':>6}{'skipped':>9}{'calls':>8}{'seconds':>9}"]
    for family, what in FAMILIES.items():
        members = [check for name, check in report["checks"].items() if name.startswith(family + ".")]
        if members:
            counts = Counter("bad" if check["status"] in BAD else check["status"] for check in members)
            lines.append(f"{what:24}{len(members):8}{counts['ok']:7}{counts['near']:7}{counts['fallback']:8}{counts['bad']:6}{counts['skipped']:9}"
                         f"{sum(check['attempts'] for check in members):8}{sum(check['seconds'] for check in members):9.1f}")
    return [*lines, ""]


def _problems(report: dict) -> list[str]:
    names = sorted(bad(report), key=lambda name: -STATUSES.index(report["checks"][name]["status"]))
    lines = ["Problems"] if names else []
    for name in names[:_LONGEST]:
        check = report["checks"][name]
        worst = [p for p in check["problems"] if p["status"] in BAD]
        for problem in worst[:2]:
            error = f" (largest error {problem['max_abs']:.3g}, relative {problem['max_rel']:.3g})" if "max_abs" in problem else ""
            lines.append(f"  {problem['status'].upper():8} {name}: {' '.join(filter(None, (problem['form'], problem['arguments'])))}")
            lines.append(f"           {problem['text'][:220]}{error}")
        if len(worst) > 2:
            lines.append(f"           and {len(worst) - 2} more forms of it")
    if len(names) > _LONGEST:
        lines.append(f"  and {len(names) - _LONGEST} more, see the data")
    return [*lines, ""] if lines else []


def _fallbacks(report: dict) -> list[str]:
    calls: Counter = Counter()
    for check in report["checks"].values():
        calls.update(check.get("fallbacks", {}))
    if not calls:
        return []
    shown = ", ".join(f"{name} ({count})" for name, count in calls.most_common(_LONGEST))
    return ["Computed on the CPU, because the provider lacks the operator (calls)", f"  {shown}", ""]


def _near(report: dict) -> list[str]:
    found = []
    for name, check in report["checks"].items():
        if check["status"] == "near":
            error = max((p.get("max_rel", 0.0) for p in check["problems"]), default=0.0)
            found.append(f"{name} ({error:.1e})")
    title = "Off by more than torch's tolerance, within the wider one (largest relative error)"
    return [title, f"  {', '.join(found[:_LONGEST])}", ""] if found else []


def _skipped(report: dict) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for name, check in report["checks"].items():
        if check["status"] == "skipped":
            reasons.setdefault(check.get("note", ""), []).append(name)
    lines = [f"  {len(names)}: {reason} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})" for reason, names in reasons.items()]
    return ["Not run", *lines, ""] if lines else []


def _timings(report: dict) -> list[str]:
    numbers = {name: value for check in report["checks"].values() for name, value in check.get("numbers", {}).items()}
    slow = sorted(((check["seconds"], name) for name, check in report["checks"].items()), reverse=True)[:5]
    shown = ", ".join(f"{name} {value:.{0 if value >= 100 else 1}f}" for name, value in numbers.items())
    lines = ["Microseconds a call", f"  {shown}", ""] if numbers else []
    return [*lines, "Slowest checks (s)", "  " + ", ".join(f"{name} {seconds:.1f}" for seconds, name in slow), ""]


def require_writable(file: Path) -> None:
    """Raises before minutes have passed, not after."""
    if file.is_dir():
        raise ReportError(f"{file} is a folder; give --out a file name")
    try:
        with tempfile.TemporaryFile(dir=file.parent):
            pass
    except OSError as error:
        raise ReportError(f"the report cannot be written to {file}: {error.strerror}; choose another place with --out") from None
    if file.exists() and not os.access(file, os.W_OK):
        raise ReportError(f"{file} exists and may not be overwritten; choose another place with --out")


def write(report: dict, file: Path) -> None:
    """Whole or not at all."""
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        part.write_text(f"{text(report)}\n{_DATA}\n{_as_json(report)}\n")
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ReportError(f"the report cannot be written to {file}: {error.strerror}") from None


def _as_json(report: dict) -> str:
    """A line for each check, so that two reports can be compared with any tool."""
    head = json.dumps({name: value for name, value in report.items() if name != "checks"})
    checks = ",\n".join(f"{json.dumps(name)}: {json.dumps(check)}" for name, check in report["checks"].items())
    return f'{head[:-1]}, "checks": {{\n{checks}\n}}}}'


def read(file: Path) -> dict:
    try:
        content = file.read_text(errors="replace")
    except OSError as error:
        raise ReportError(f"{file} cannot be read: {error.strerror}") from None
    head, marker, data = content.partition(_DATA)
    if not head.startswith(TITLE) or not marker:
        raise ReportError(f"{file} is not a report of torch_npu.verify, or its end is missing")
    try:
        report = json.loads(data)
        if report["format"] != _FORMAT:
            raise ReportError(f"{file} has format {report['format']}, this torch_npu reads {_FORMAT}")
        for check in report["checks"].values():
            if check["status"] not in STATUSES:
                raise KeyError(check["status"])
        report["machine"].items()
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ReportError(f"the data of {file} is damaged ({type(error).__name__}: {error}); make the report anew") from None
    return report
