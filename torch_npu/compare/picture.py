"""The error along the network as an SVG: a bar for each launch, on a logarithmic scale. Written by hand, so that it needs nothing."""

from __future__ import annotations

import math
from html import escape

from torch_npu.compare.difference import Pair

_LEFT, _TOP, _WIDTH, _HEIGHT, _BOTTOM = 70, 64, 860, 260, 58
_FLOOR, _CEILING = -16, 2  # powers of ten
_EQUAL, _WITHIN, _BEYOND, _FIRST = "#c9d1d9", "#4c9be8", "#f0a35e", "#d1242f"


def _text(x: float, y: float, words: str, size: int = 12, anchor: str = "start", color: str = "#24292f", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{color}"{more}>{escape(words)}</text>'


def _height(relative: float) -> float:
    """Of a bar; a launch without any error has a stub."""
    if relative <= 0:
        return 3.0
    power = _CEILING if math.isinf(relative) else min(max(math.log10(relative), _FLOOR), _CEILING)
    return 3.0 + (power - _FLOOR) / (_CEILING - _FLOOR) * (_HEIGHT - 3)


def draw(pairs: list[Pair], first: int | None, titles: tuple[str, str]) -> str:
    """`first`: which pair is the first beyond the tolerance."""
    width, height = _LEFT + _WIDTH + 30, _TOP + _HEIGHT + _BOTTOM
    base, step = _TOP + _HEIGHT, _WIDTH / max(len(pairs), 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(_LEFT, 22, f"{titles[0]} and {titles[1]}: relative error of each operator's outputs", 15),
    ]
    for power in range(_FLOOR, _CEILING + 1, 3):
        y = base - _height(10.0**power)
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_LEFT + _WIDTH}" y2="{y:.1f}" stroke="#e6e9ec"/>')
        parts.append(_text(_LEFT - 8, y + 4, f"1e{power}", 11, "end", "#57606a"))
    for place, pair in enumerate(pairs):
        error = pair.outputs
        color = _FIRST if place == first else _BEYOND if error.beyond else _WITHIN if error.relative > 0 else _EQUAL
        tall = _height(error.relative)
        parts.append(
            f'<rect x="{_LEFT + place * step:.2f}" y="{base - tall:.1f}" width="{max(step * 0.8, 0.8):.2f}" height="{tall:.1f}" '
            f'fill="{color}"><title>{escape(f"{pair.first.order} {pair.first.operator}: {error.relative:.2g}")}</title></rect>'
        )
    if first is not None:
        x, launch = _LEFT + (first + 0.4) * step, pairs[first].first
        anchor = "start" if first < len(pairs) / 2 else "end"
        parts.append(f'<line x1="{x:.1f}" y1="{_TOP - 10}" x2="{x:.1f}" y2="{base}" stroke="{_FIRST}" stroke-dasharray="3 3"/>')
        where = launch.module or launch.line or launch.scope
        parts.append(_text(x, _TOP - 16, f"first: #{launch.order} {launch.operator}, {where}", 12, anchor, _FIRST))
    parts.append(_text(_LEFT, base + 20, f"launch {pairs[0].first.order if pairs else 0}", 11, "start", "#57606a"))
    parts.append(_text(_LEFT + _WIDTH, base + 20, f"launch {pairs[-1].first.order if pairs else 0}", 11, "end", "#57606a"))
    x = float(_LEFT)
    for color, words in ((_EQUAL, "equal"), (_WITHIN, "within the tolerance"), (_BEYOND, "beyond it"), (_FIRST, "the first beyond it")):
        parts.append(f'<rect x="{x}" y="{base + 34}" width="12" height="12" fill="{color}"/>' + _text(x + 18, base + 44, words))
        x += 40 + 7 * len(words)
    return "\n".join([*parts, "</svg>"]) + "\n"
