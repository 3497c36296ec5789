"""Edits of a source as replaced spans of its UTF-8 bytes: what no edit covers stays byte for byte."""

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


def line_of(source: bytes, position: int) -> int:
    return source.count(b"\n", 0, position) + 1


def insert_line(source: bytes, position: int, lines: list[str], newline: str, api: str, tip: str) -> Edit:
    """Inserts lines after the line that holds `position`, behind its comment."""
    end = source.find(b"\n", position) + 1
    text = "".join(line + newline for line in lines)
    if end:
        return Edit(end, end, text, api, tip)
    return Edit(len(source), len(source), newline + text, api, tip)
