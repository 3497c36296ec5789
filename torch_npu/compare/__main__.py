"""`python -m torch_npu.compare A B`: the first operator in which two dumps differ, a table, and a picture of the error.

`python -m torch_npu.compare --replay FOLDER --order N` repeats one operator of a dump on the CPU and the npu.
Code 0: all within the tolerance, 1: not, 2: the question makes no sense.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from torch_npu.compare import difference, folder, picture
from torch_npu.compare.difference import Difference, Pair


def _least(kind: type) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = kind(text)
        if not value >= 0:
            raise ValueError(text)
        return value

    number.__name__ = "number from 0 on"  # for argparse's message
    return number


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m torch_npu.compare", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="two dumps; the first is what is right")
    parser.add_argument("--rtol", type=_least(float), help="for every type; by default that of torch.testing.assert_close for each")
    parser.add_argument("--atol", type=_least(float), help="likewise")
    parser.add_argument("--rows", type=_least(int), default=10, help="of the table: launches from the first that differs on (10)")
    parser.add_argument("--picture", metavar="FILE", help="writes the error along the network as SVG")
    parser.add_argument("--replay", metavar="FOLDER", help="repeat one operator of this dump")
    parser.add_argument("--order", type=int, help="which: its number in the index")
    options = parser.parse_args(argv)
    if options.replay is None and len(options.folders) != 2:
        parser.error("name two dumps, or --replay FOLDER --order N")
    if options.replay is not None and (options.order is None or options.folders):
        parser.error("--replay takes one dump and --order N")
    return options


def _state(d: Difference) -> str:
    return "differs" if d.beyond else "close" if d.relative else "equal"


def _row(pair: Pair) -> list[str]:
    a, d = pair.first, pair.outputs
    shapes = " ".join("x".join(map(str, t.shape)) or "scalar" for t in a.outputs[:2]) + (" ..." if len(a.outputs) > 2 else "")
    where = os.path.basename(a.line.partition(" in ")[0])
    return [str(a.order), str(a.step), a.operator, a.aclnn, shapes, a.outputs[0].dtype if a.outputs else "", f"{d.largest:.3g}",
            f"{d.relative:.3g}", _state(pair.inputs), d.reason or _state(d), where, a.module]


def _table(rows: list[list[str]]) -> None:
    rows.insert(0, ["order", "step", "operator", "aclnn", "shape", "dtype", "largest", "relative", "inputs", "outputs", "line", "module"])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _compare(options: argparse.Namespace) -> int:
    a, b = (folder.read(each) for each in options.folders)
    pairs, alone = difference.pairs(a, b, options.rtol, options.atol)
    if not pairs:
        print("The dumps have no operator in common.")
        return 2
    beyond = [i for i, pair in enumerate(pairs) if pair.outputs.beyond]
    print(f"{len(pairs)} launches compared, {len(beyond)} differ beyond the tolerance; {alone} are in one dump only.")
    first = beyond[0] if beyond else None
    if first is not None:
        launch = pairs[first].first
        cause = "its inputs differ already" if pairs[first].inputs.beyond else "its inputs agree: the difference begins here"
        print(f"The first is launch {launch.order}, {launch.operator} ({launch.aclnn}) at {launch.place}; {cause}.\n")
    _table([_row(pair) for pair in pairs[first or 0 :][: options.rows]])
    if options.picture:
        names = [Path(each).resolve().name for each in options.folders]
        Path(options.picture).write_text(picture.draw(pairs, first, (names[0], names[1])), encoding="utf-8")
        print(f"\nThe error along the network: {options.picture}")
    return int(first is not None)


def _replay(options: argparse.Namespace) -> int:
    from torch_npu.compare import replay

    found = [launch for launch in folder.read(options.replay) if launch.order == options.order]
    if not found:
        raise ValueError(f"{options.replay} has no launch {options.order}")
    launch, code = found[0], 0
    print(f"launch {launch.order}: {launch.operator} ({launch.aclnn}) at {launch.place}")
    for what, d in replay.differences(launch, options.rtol, options.atol):
        if isinstance(d, str):
            print(f"  {what}: {d}")
            continue
        print(f"  {what}: {d.reason or _state(d)}, largest {d.largest:.3g}, relative {d.relative:.3g}")
        code |= d.beyond
    return int(code)


def main(argv: list[str] | None = None) -> int:
    options = _arguments(argv)
    try:
        return _compare(options) if options.replay is None else _replay(options)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
