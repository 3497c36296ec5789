"""Edits of a source as replaced spans of its UTF-8 bytes: what no edit covers stays byte for byte."""

import functools
from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Edit:
    """Replaces source[start:end] by `text`. `api` names what changes, for the report."""

    start: int
    end: int
    text: str
    api: str
    tip: str


def apply(source: bytes, edits: list[Edit]) -> bytes:
    """The source with all edits made. Edits must not overlap; those at the same place keep their order."""
    parts, position = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < position:
            raise ValueError(f"two edits overlap at byte {edit.start}: {edit.text!r}")
        parts += [source[position : edit.start], edit.text.encode()]
        position = edit.end
    return b"".join([*parts, source[position:]])


def line_of(source: bytes | str, position: int) -> int:
    """The line, counted from 1, in which a position lies."""
    return bisect_right(_line_starts(source), position)


@functools.lru_cache(maxsize=4)
def _line_starts(source: bytes | str) -> list[int]:
    parts = source.split(b"\n") if isinstance(source, bytes) else source.split("\n")
    starts = [0]
    for part in parts[:-1]:
        starts.append(starts[-1] + len(part) + 1)
    return starts


def changed_lines(source: bytes, edits: list[Edit]) -> list[tuple[int, int, int, int]]:
    """Which lines became which, in order: lines[a:b] of the source are lines[c:d] of the result, counted from 0. All others are
    the same. In linear time, where a comparison of the two texts could take cubic."""
    found: list[tuple[int, int, int, int]] = []
    shift = 0  # how many lines there are more before this place
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        first, last = line_of(source, edit.start) - 1, line_of(source, edit.end)
        added = edit.text.count("\n") - source.count(b"\n", edit.start, edit.end)
        starts_line = edit.start == 0 or source[edit.start - 1 : edit.start] == b"\n"
        if edit.start == edit.end and starts_line and edit.text.endswith("\n"):
            last = first  # whole lines are inserted, none is changed
        if found and first < found[-1][1]:
            a, b, c, d = found.pop()
            found.append((a, max(b, last), c, d + max(0, last - b) + added))
        else:
            found.append((first, last, first + shift, last + shift + added))
        shift += added
    return found


def insert_line(source: bytes, position: int, lines: list[str], newline: str, api: str, tip: str) -> Edit:
    """Inserts lines after the line that holds `position`, behind its comment."""
    end = source.find(b"\n", position) + 1
    text = "".join(line + newline for line in lines)
    if end:
        return Edit(end, end, text, api, tip)
    return Edit(len(source), len(source), newline + text, api, tip)
