"""What differs between two reports: machines, outcomes, timings."""

from __future__ import annotations

from torch_npu.verify.outcome import BAD, STATUSES

_SLOWER = 2.0  # times that are worth a line


def differences(a: dict, b: dict) -> tuple[list[str], bool]:
    """Lines for a person, and whether the outcome of a check differs."""
    lines = [f"{name}: {a['machine'].get(name, '-')} | {b['machine'].get(name, '-')}"
             for name in dict.fromkeys([*a["machine"], *b["machine"]]) if a["machine"].get(name) != b["machine"].get(name)]
    lines = ["Machine", *(f"  {line}" for line in lines), ""] if lines else []
    changed = _outcomes(a["checks"], b["checks"])
    lines += ["Outcomes", *(f"  {line}" for line in changed), ""] if changed else []
    for title, only in (("first", a["checks"].keys() - b["checks"].keys()), ("second", b["checks"].keys() - a["checks"].keys())):
        if only:
            shown = sorted(only)
            lines += [f"Only in the {title}: {len(only)} checks", f"  {', '.join(shown[:20])}{', ...' if len(only) > 20 else ''}", ""]
    times = _times(a["checks"], b["checks"])
    lines += ["Microseconds a call", *(f"  {line}" for line in times), ""] if times else []
    return lines, bool(changed)


def _outcomes(a: dict[str, dict], b: dict[str, dict]) -> list[str]:
    """Also checks of the same status whose problems are others."""
    lines = []
    common = [name for name in a if name in b]
    for name in sorted(common, key=lambda n: -max(STATUSES.index(a[n]["status"]), STATUSES.index(b[n]["status"]))):
        first, second = a[name], b[name]
        if first["status"] != second["status"]:
            lines.append(f"{name}: {first['status']} | {second['status']}{_why(first, second)}")
        elif first["status"] in BAD and _forms(first) != _forms(second):
            lines.append(f"{name}: {first['status']} in {', '.join(sorted(_forms(first)))} | in {', '.join(sorted(_forms(second)))}")
        elif first.get("fallbacks", {}).keys() != second.get("fallbacks", {}).keys():
            lines.append(f"{name}: on the CPU {sorted(first.get('fallbacks', {}))} | {sorted(second.get('fallbacks', {}))}")
    return lines


def _forms(check: dict) -> set[str]:
    return {problem["form"] for problem in check.get("problems", ()) if problem["status"] in BAD}


def _why(*checks: dict) -> str:
    for check in checks:
        for problem in check.get("problems", ()):
            if problem["status"] == check["status"]:
                return f" ({' '.join(filter(None, (problem['form'], problem['arguments'])))}: {problem['text'][:160]})"
    return ""


def _times(a: dict[str, dict], b: dict[str, dict]) -> list[str]:
    lines = []
    for name in a:
        for what, first in a[name].get("numbers", {}).items():
            second = b.get(name, {}).get("numbers", {}).get(what)
            if second and first:
                note = "  <--" if max(first / second, second / first) >= _SLOWER else ""
                lines.append(f"{what:28} {first:12g} | {second:12g}   x{second / first:.2f}{note}")
    return lines
