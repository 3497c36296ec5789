"""Draws loss curves that the examples wrote with --losses: one panel per job, one line per run.

Usage: python plot_curves.py OUT.png "ResNet-18" cpu=a.txt npu=b.txt -- "Character GPT" cpu=c.txt npu=d.txt
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

STYLES = [("tab:orange", "-", 3.0), ("tab:blue", "--", 1.5), ("tab:green", ":", 1.5)]


def read(path):
    text = Path(path).read_text()
    return json.loads(text) if text.startswith("[") else [float(line) for line in text.split()]


def main():
    out, *rest = sys.argv[1:]
    jobs = [job.split("\n") for job in "\n".join(rest).split("\n--\n")]
    figure, axes = pyplot.subplots(1, len(jobs), figsize=(4.5 * len(jobs), 3.2), squeeze=False)
    for axis, (title, *runs) in zip(axes[0], jobs):
        for run, (colour, style, width) in zip(runs, STYLES):
            name, _, path = run.partition("=")
            axis.plot(read(path), color=colour, linestyle=style, linewidth=width, label=name)
        axis.set(title=title, xlabel="step", ylabel="loss")
        axis.legend()
    figure.tight_layout()
    figure.savefig(out, dpi=100)


if __name__ == "__main__":
    main()
