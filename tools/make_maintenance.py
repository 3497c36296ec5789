#!/usr/bin/env python3
"""Writes docs/maintenance.md from torch_npu/compatibility.json. Usage: make_maintenance.py [--check]"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/maintenance.md"


def rows(header: list[str], lines: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header), *("| " + " | ".join(line) + " |" for line in lines)]


def page() -> str:
    table = json.loads((ROOT / "torch_npu/compatibility.json").read_text())
    ours = table["this_release"]
    text = [
        "# Versions and maintenance", "", "<!-- written by tools/make_maintenance.py from torch_npu/compatibility.json -->",
        f"This release is {ours['adapter']}, for torch {ours['torch']} and Python {', '.join(ours['python'])}. On a machine with cards",
        f"take CANN {', '.join(ours['cann'])}: the newest version that the official plugin for the same torch names. Nothing here has",
        "run on CANN.",
        "softnpu needs no CANN.", "",
        "`torch_npu.utils.compatibility(cann=..., torch=..., python=...)` answers from the same table, and the first use of a CANN that",
        "is not paired with the installed torch warns once.", "",
        f"Names: {table['naming']}.", "", "## CANN, torch and the plugin", "",
        "Rows of CANN 8.5.0 and older are what the official project published.", "",
        *rows(["CANN", "torch", "torch_npu", "branch", "Python"],
              [[row["cann"], row["torch"], row["adapter"] + (" (beta)" if row.get("beta") else ""), row["branch"],
                ", ".join(table["python"].get(row["torch"], ["unknown"]))] for row in table["pairing"]]),
        "", "## Phases", "", "A branch goes through these; LTS branches stay longer in two of them.", "",
        *rows(["phase", "duration", "what happens"], [[p["state"], p["duration"] or "", p["meaning"]] for p in table["phases"]]),
        "", "## State of each torch version", "",
        *rows(["torch", "policy", "state", "released", "next phase expected", "end of life"],
              [[row["torch"], row["policy"], row["state"], row["released"] or "", _next(row["next_expected"]), row["eol"] or ""]
               for row in table["torch_maintenance"]]),
        "", "## Hardware", "", "What the official project supports; nothing here has run on any of it.", "",
        *rows(["series", "products"], [[series, ", ".join(products)] for series, products in table["hardware"].items()]),
        "", "## Compilers", "", *rows(["for", "compiler"], [[key, value] for key, value in table["compilers"].items()]),
        "", "## Containers", "", "Cards are given to a container with these flags of `docker run`:", "",
        *(f"- `{flag}`" for flag in table["container_flags"]),
    ]
    return "\n".join(text) + "\n"


def _next(expected: dict | None) -> str:
    return f"{expected['state']}, {expected['date']}" if expected else ""


def main() -> int:
    if "--check" in sys.argv:
        return PAGE.read_text() != page()
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
