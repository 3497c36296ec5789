"""The lists of test/expect: what is not supported for good, and what fails for now. A row that passes is an error."""

from __future__ import annotations

import os
from functools import cache
from itertools import product
from pathlib import Path

import yaml

LISTS = ("unsupported", "expected_failures")
FOLDER = Path(__file__).resolve().parent.parent / "expect"


@cache
def load(name: str) -> dict[str, str]:
    """Reasons by row."""
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text()) or {}


def expand(rows: dict[str, str]) -> dict[tuple[str, str, str], str]:
    """Reasons by (operator, dtype, check). A row is "operator dtypes checks"; dtypes and checks are lists with commas.

    A check may end in "@2": at that level of the task queue only.
    """
    cells: dict[tuple[str, str, str], str] = {}
    for row, reason in rows.items():
        op, dtypes, checks = row.split()
        for cell in product([op], dtypes.split(","), checks.split(",")):
            if "*" in cell:
                raise ValueError(f"{row}: a row names its operator, dtypes and checks")
            if cell in cells:
                raise ValueError(f"{row}: {' '.join(cell)} has two rows")
            cells[cell] = reason
    return cells


@cache
def listed(name: str) -> dict[tuple[str, str, str], str]:
    return expand(load(name))


def cells(*checks: str) -> list[tuple[str, str, str]]:
    """What the lists say about these checks."""
    return [cell for name in LISTS for cell in listed(name) if cell[2] in checks]


def surprises(op: str, dtype: str, checks: dict[str, dict], complete: bool = True) -> list[str]:
    """One line for every check that does not do what the lists say. All samples of a pair (`complete`) show that a row is not needed."""
    lines = []
    for check, result in checks.items():
        names = (check, f"{check}@{os.environ.get('TASK_QUEUE_ENABLE', '0')}")
        listing, named = next(((name, n) for name in LISTS for n in names if (op, dtype, n) in listed(name)), (None, check))
        if listing and complete and result["status"] in ("pass", "none"):
            reason = listed(listing)[op, dtype, named]
            lines.append(f"{op} {dtype} {check}: {result['status']}, but test/expect/{listing}.yaml says: {reason}")
        elif not listing and result["status"] not in ("pass", "none"):
            lines.append(f"{op} {dtype} {check}: {result['status']}: {result['detail']}")
    return lines
