"""Edits of a source as replaced spans of bytes: what no edit covers stays byte for byte."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Edit:
    """Replaces source[start:end] by `text`. `api` names what changes, for the report."""

    start: int
    end: int
    text: str
    api: str
    tip: str


def apply(source: bytes, edits: list[Edit], encoding: str) -> bytes:
    """The source with all edits made. Edits must not overlap; those at the same place keep their order."""
    parts, position = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < position:
            raise ValueError(f"two edits overlap at byte {edit.start}: {edit.text!r}")
        parts += [source[position : edit.start], edit.text.encode(encoding)]
        position = edit.end
    return b"".join([*parts, source[position:]])


def line_of(source: bytes, position: int) -> int:
    return source.count(b"\n", 0, position) + 1
