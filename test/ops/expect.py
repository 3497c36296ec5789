"""The lists of test/expect: what is not supported for good, and what fails for now."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parent.parent / "expect"


@cache
def load(name: str) -> dict[str, str]:
    """Reasons by "operator dtype check"; a part may be "*", and "operator" stands for "operator#number" too."""
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text()) or {}


def reason(listing: str, op: str, dtype: str, check: str) -> str | None:
    entries = load(listing)
    keys = (f"{o} {d} {c}" for o in (op, op.partition("#")[0], "*") for d in (dtype, "*") for c in (check, "*"))
    return next((entries[key] for key in keys if key in entries), None)


def surprises(op: str, dtype: str, checks: dict[str, dict]) -> list[str]:
    """One line for every check that does not do what the lists say."""
    lines = []
    for check, result in checks.items():
        if reason("unsupported", op, dtype, check):
            continue
        expected = reason("expected_failures", op, dtype, check)
        if expected and result["status"] == "pass":
            lines.append(f"{op} {dtype} {check}: passes, but test/expect/expected_failures.yaml says: {expected}")
        elif not expected and result["status"] not in ("pass", "none"):
            lines.append(f"{op} {dtype} {check}: {result['status']}: {result['detail']}")
    return lines
