"""How far two launches are apart, and which launches of two dumps belong together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain

import numpy as np

from torch_npu.compare.folder import Launch, Tensor

# (rtol, atol), those of torch.testing.assert_close; types that are not here must be equal.
TOLERANCES = {
    "float64": (1e-7, 1e-7), "complex128": (1e-7, 1e-7), "float32": (1.3e-6, 1e-5), "complex64": (1.3e-6, 1e-5),
    "float16": (1e-3, 1e-5), "complex32": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5),
    "float8_e5m2": (0.25, 1e-5), "float8_e4m3fn": (0.125, 1e-5),
}  # fmt: skip

_NEAR, _FAR = 256, 2048  # launches behind a difference in which the dumps are looked at together


@dataclass(frozen=True)
class Difference:
    relative: float = 0.0  # norm of the difference over the norm of the first
    largest: float = 0.0  # of one element
    beyond: bool = False  # the tolerance
    reason: str = ""  # when there are no numbers to compare

    def worse(self, other: Difference) -> Difference:
        return max(self, other, key=lambda d: (d.beyond, d.relative))


@dataclass(frozen=True)
class Pair:
    first: Launch
    second: Launch
    inputs: Difference
    outputs: Difference


def tolerance(dtype: str, rtol: float | None, atol: float | None) -> tuple[float, float]:
    usual = TOLERANCES.get(dtype, (0.0, 0.0))
    return usual[0] if rtol is None else rtol, usual[1] if atol is None else atol


def of_values(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> Difference:
    """Not-a-number equals itself, and infinity too."""
    kind = np.complex128 if np.iscomplexobj(a) else np.float64
    a, b = a.astype(kind), b.astype(kind)
    with np.errstate(invalid="ignore", over="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(same, 0, np.abs(a - b))
        beyond = bool(np.any(~(same | (np.isfinite(apart) & (apart <= atol + rtol * np.abs(a))))))  # infinity has no tolerance
        if not np.all(np.isfinite(apart)):
            return Difference(np.inf, np.inf, beyond, "not finite in one of them")
        norm = float(np.linalg.norm(np.where(np.isfinite(a), a, 0)))
        difference = float(np.linalg.norm(apart))
    return Difference(difference / norm if norm else difference, float(apart.max(initial=0)), beyond)


def of_statistics(a: dict[str, float], b: dict[str, float], rtol: float, atol: float) -> Difference:
    if any(a[name] != b[name] for name in ("finite", "nan", "inf")):
        return Difference(np.inf, np.inf, True, "other numbers of nan or inf")
    worst = Difference()
    for name in ("min", "max", "mean", "norm"):
        if name in a:
            apart = abs(a[name] - b[name])
            worst = worst.worse(Difference(apart / (abs(a[name]) or 1.0), apart, apart > atol + rtol * abs(a[name])))
    return worst


def of_tensors(a: list[Tensor], b: list[Tensor], rtol: float | None, atol: float | None) -> Difference:
    if [(t.shape, t.dtype) for t in a] != [(t.shape, t.dtype) for t in b]:
        return Difference(np.inf, np.inf, True, "other shapes or types")
    worst = Difference()
    for one, two in zip(a, b, strict=True):
        limits = tolerance(one.dtype, rtol, atol)
        if one.file is None or two.file is None:
            worst = worst.worse(of_statistics(one.statistics, two.statistics, *limits))
        else:
            worst = worst.worse(of_values(one.values(), two.values(), *limits))
    return worst


def _matches(a: list, b: list) -> list[tuple[int, int]]:
    """Places of equal names, so that as few as can be are left over (Myers 1986). Time grows with the number of those."""
    reached, history = {1: 0}, []
    for distance in range(len(a) + len(b) + 1):
        history.append(dict(reached))
        for k in range(-distance, distance + 1, 2):
            down = k == -distance or (k != distance and reached[k - 1] < reached[k + 1])
            x = reached[k + 1] if down else reached[k - 1] + 1
            while x < len(a) and x - k < len(b) and a[x] == b[x - k]:
                x += 1
            reached[k] = x
            if x >= len(a) and x - k >= len(b):
                return _way_back(history, x, x - k)
    return []


def _way_back(history: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    found = []
    for distance in range(len(history) - 1, -1, -1):
        reached, k = history[distance], x - y
        down = k == -distance or (k != distance and reached[k - 1] < reached[k + 1])
        before = reached[k + 1] if down else reached[k - 1]
        begin = before if down else before + 1
        found += [(place, place - k) for place in range(x - 1, begin - 1, -1)]
        x, y = before, before - (k + 1 if down else k - 1)
    return found[::-1]


def _all_matches(a: list, b: list) -> Iterator[tuple[int, int]]:
    """Those of whole dumps, which may have 100,000 launches: what follows a difference is looked at, and believed in its first half."""
    i, j, reach = 0, 0, _NEAR
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            yield i, j
            i, j, reach = i + 1, j + 1, _NEAR
            continue
        if reach > _FAR:  # much is in one dump only
            for one, two, size in SequenceMatcher(None, a[i:], b[j:], autojunk=False).get_matching_blocks():
                yield from ((i + one + k, j + two + k) for k in range(size))
            return
        found = _matches(a[i : i + reach], b[j : j + reach])
        if i + reach < len(a) or j + reach < len(b):
            found = [match for match in found if max(match) < reach // 2]
        elif not found:
            return
        yield from ((i + one, j + two) for one, two in found)
        if found:
            i, j = i + found[-1][0] + 1, j + found[-1][1] + 1
        else:
            reach *= 2


def aligned(a: list[Launch], b: list[Launch]) -> Iterator[tuple[Launch | None, Launch | None]]:
    """Launches of the same operators, in order; None stands for one that the other dump lacks."""
    i = j = 0
    ends = (len(a), len(b))
    for one, two in chain(_all_matches([launch.key for launch in a], [launch.key for launch in b]), [ends]):
        yield from ((launch, None) for launch in a[i:one])
        yield from ((None, launch) for launch in b[j:two])
        if (one, two) != ends:
            yield a[one], b[two]
        i, j = one + 1, two + 1


def pairs(a: list[Launch], b: list[Launch], rtol: float | None = None, atol: float | None = None) -> tuple[list[Pair], int]:
    """The launches that both have, compared, and how many only one has."""
    found, alone = [], 0
    for one, two in aligned(a, b):
        if one is None or two is None:
            alone += 1
        else:
            found.append(Pair(one, two, of_tensors(one.inputs, two.inputs, rtol, atol), of_tensors(one.outputs, two.outputs, rtol, atol)))
    return found, alone
