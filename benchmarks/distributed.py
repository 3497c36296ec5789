#!/usr/bin/env python3
"""Measures what docs/distributed.md says about time, and writes its tables and its plot.

Usage: distributed.py [--realtime] [--lines FILE]. Runs collectives.py and ddp_step.py, which see for their options; --lines keeps
their output in FILE, or takes it from there if the file exists. The page's parts between `<!-- measured: NAME -->` and
`<!-- end of NAME -->` are replaced. --ranks, --sizes, --megabytes and --seconds are those of the two; --page and --plot name
other files to write.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from cost_model import CARDS, all_reduce, fit, halving, ring, traffic
from ddp_step import draw

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"


def measure(script, *options):
    """The JSON lines of a benchmark, which are echoed."""
    lines = []
    with subprocess.Popen([sys.executable, HERE / script, *options], stdout=subprocess.PIPE, text=True) as process:
        for text in process.stdout:
            print(text, end="", flush=True)
            lines.append(json.loads(text))
    if process.returncode != 0:
        sys.exit(f"{script} failed")
    return lines


def table(heads, rows):
    cells = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in cells)


def bytes_text(size):
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"


def microseconds(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def grid(lines, cell):
    """A row for each collective and number of ranks, a column for each size."""
    sizes = sorted({line["bytes"] for line in lines})
    keys = sorted({(line["operation"], line["ranks"]) for line in lines})
    cells = {(line["operation"], line["ranks"], line["bytes"]): cell(line) for line in lines}
    rows = [[operation, ranks, *(cells[operation, ranks, size] for size in sizes)] for operation, ranks in keys]
    return table(["collective", "ranks", *map(bytes_text, sizes)], rows)


def collectives_part(lines):
    alpha, beta = fit(lines)

    def modelled(line):
        seconds = alpha[line["ranks"]] + traffic(line["operation"], line["ranks"], line["bytes"]) / beta[line["operation"]]
        return f"{line['hccl_us'] * 1e-6 / seconds:.2f}"

    waiting = max(line["waiting_rank_core_share"] for line in lines)
    budget = [
        [line["operation"], line["ranks"], bytes_text(line["bytes"]), line["budget"], line["gloo/hccl"]]
        for line in lines
        if line["budget"]
    ]
    parts = [
        "Microseconds with hccl:",
        grid(lines, lambda line: microseconds(line["hccl_us"])),
        "Time with gloo on CPU tensors : time with hccl:",
        grid(lines, lambda line: line["gloo/hccl"]),
    ]
    if budget:
        parts += ["At least, by design:", table(["collective", "ranks", "bytes", "at least", "measured"], budget)]
    parts += [
        "Bandwidth through memory as a share of memcpy's on one core (tensors that stay in a cache exceed it, and so may several cores):",
        grid(lines, lambda line: line["share_of_memcpy"]),
        "Measured : modelled time:",
        grid(lines, modelled),
        "α: "
        + ", ".join(f"{alpha[ranks] * 1e6:.0f} µs with {ranks} ranks" for ranks in sorted(alpha))
        + ".\nβ: "
        + ", ".join(f"{beta[name] / 1e9:.1f} GB/s in {name}" for name in sorted(beta))
        + f".\nA rank that waits for a late one used at most {waiting * 100:.1f} % of a core.",
    ]
    return "\n\n".join(parts)


def ddp_part(lines):
    heads = ["ranks", "parameters, MB", "hccl, ms", "gloo, ms", "gloo : hccl"]
    return table(heads, [[line["ranks"], line["megabytes"], line["hccl_ms"], line["gloo_ms"], line["gloo/hccl"]] for line in lines])


def cards_part():
    sizes = {"1 MB": 1 << 20, "25 MB": 25 << 20, "64 MB": 64 << 20}
    heads = ["cards", *(f"{name}, {how}" for name in sizes for how in ("ring between servers", "halving and doubling"))]
    rows = [
        [f"{cards:,}", *(f"{all_reduce(cards, size, how) * 1e3:.2f} ms" for size in sizes.values() for how in (ring, halving))]
        for cards in CARDS
    ]
    return table(heads, rows)


def replace(text, name, part):
    pattern = re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end of {name} -->)", re.S)
    text, count = pattern.subn(lambda match: f"{match[1]}\n{part}\n\n{match[2]}", text)
    if count != 1:
        sys.exit(f"the page has {count} parts '{name}'")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--ranks", nargs="+")
    parser.add_argument("--sizes", nargs="+")
    parser.add_argument("--megabytes", nargs="+")
    parser.add_argument("--seconds", nargs=1)
    parser.add_argument("--lines", type=Path)
    parser.add_argument("--page", type=Path, default=DOCS / "distributed.md")
    parser.add_argument("--plot", type=Path, default=DOCS / "ddp_step.png")
    arguments = parser.parse_args()

    import matplotlib  # noqa: F401  (whether it is there is better known before the measurements)

    def options(*names):
        words = []
        for name in names:
            value = getattr(arguments, name)
            if value:
                words += [f"--{name}", *([] if value is True else value)]
        return words

    if arguments.lines and arguments.lines.exists():
        lines = [json.loads(line) for line in arguments.lines.read_text().splitlines()]
    else:
        lines = measure("collectives.py", *options("realtime", "ranks", "sizes", "seconds"))
        lines += measure("ddp_step.py", *options("realtime", "ranks", "megabytes", "seconds"))
        if arguments.lines:
            arguments.lines.write_text("".join(json.dumps(line) + "\n" for line in lines))
    collectives, steps = ([line for line in lines if ("operation" in line) == kind] for kind in (True, False))
    text = arguments.page.read_text()
    for name, part in (("collectives", collectives_part(collectives)), ("ddp", ddp_part(steps)), ("cards", cards_part())):
        text = replace(text, name, part)
    arguments.page.write_text(text)
    draw(steps, arguments.plot)


if __name__ == "__main__":
    main()
