"""How far two launches are apart, and which launches of two dumps belong together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from torch_npu.compare.folder import Launch, Tensor

# (rtol, atol), those of torch.testing.assert_close; types that are not here must be equal.
TOLERANCES = {
    "float64": (1e-7, 1e-7), "complex128": (1e-7, 1e-7), "float32": (1.3e-6, 1e-5), "complex64": (1.3e-6, 1e-5),
    "float16": (1e-3, 1e-5), "complex32": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5),
    "float8_e5m2": (0.25, 1e-5), "float8_e4m3fn": (0.125, 1e-5),
}  # fmt: skip


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
        beyond = bool(np.any(~(same | (apart <= atol + rtol * np.abs(a)))))
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


def aligned(a: list[Launch], b: list[Launch]) -> Iterator[tuple[Launch | None, Launch | None]]:
    """Launches of the same operators, in order; None stands for one that the other dump lacks."""
    names_a, names_b = [launch.key for launch in a], [launch.key for launch in b]
    if names_a == names_b:
        yield from zip(a, b, strict=True)
        return
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, names_a, names_b, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from zip(a[a1:a2], b[b1:b2], strict=True)
        else:
            yield from ((launch, None) for launch in a[a1:a2])
            yield from ((None, launch) for launch in b[b1:b2])


def pairs(a: list[Launch], b: list[Launch], rtol: float | None = None, atol: float | None = None) -> tuple[list[Pair], int]:
    """The launches that both have, compared, and how many only one has."""
    found, alone = [], 0
    for one, two in aligned(a, b):
        if one is None or two is None:
            alone += 1
        else:
            found.append(Pair(one, two, of_tensors(one.inputs, two.inputs, rtol, atol), of_tensors(one.outputs, two.outputs, rtol, atol)))
    return found, alone
