"""Reading a dump: the folder that ACL_DUMP_DATA=1 leaves behind (csrc/dump/session.h says what is in it)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass
class Tensor:
    shape: list[int]
    dtype: str
    file: Path | None  # None: statistics only
    statistics: dict[str, float]

    def values(self) -> np.ndarray:
        if self.file is None:
            raise ValueError("this dump has statistics only; dump again without data=stats")
        try:
            return np.load(self.file, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{self.file} is damaged: {error}") from error


@dataclass
class Launch:
    order: int
    step: int
    operator: str
    aclnn: str
    scope: str
    line: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    failed: bool = False
    overload: str = ""
    arguments: list = field(default_factory=list)
    tensors: list[int | None] = field(default_factory=list)

    @property
    def module(self) -> str:
        """The innermost module that was running: "layers.3 (Linear)"."""
        names = [part.removeprefix("module ") for part in self.scope.split(" > ") if part.startswith("module ")]
        return names[-1] if names else ""

    @property
    def place(self) -> str:
        """Module and line, for people."""
        where = self.line or self.scope or "an unknown place"
        return f"{where}, module {self.module}" if self.module else where

    @property
    def key(self) -> tuple[str, str]:
        return self.operator, self.aclnn


def read(folder: str | Path) -> list[Launch]:
    """The launches of a dump in their order."""
    folder = Path(folder)
    index = folder / "index.jsonl"
    if not index.is_file():
        raise FileNotFoundError(f"{folder} is no dump: it has no index.jsonl; name a folder npu_dump_<pid> that ACL_DUMP_DATA=1 made")
    launches = []
    for number, text in enumerate(index.read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = json.loads(text)
        except ValueError:  # the program was killed while it wrote
            print(f"{index}:{number} is not complete and left out")
            continue
        if isinstance(entry, dict) and "order" in entry:
            try:
                launches.append(_launch(entry, folder))
            except (LookupError, TypeError) as error:
                raise ValueError(f"{index}:{number} is no line of a dump: {type(error).__name__} {error}") from error
    return sorted(launches, key=lambda launch: launch.order)


def _launch(entry: dict, folder: Path) -> Launch:
    def tensors(name: str) -> list[Tensor]:
        return [Tensor(t["shape"], t["dtype"], folder / t["file"] if t["file"] else None, t["statistics"]) for t in entry[name]]

    plain = {name: entry[name] for name in ("order", "step", "operator", "aclnn", "scope", "line")}
    more = {name: entry[name] for name in ("failed", "overload", "arguments", "tensors") if name in entry}
    return Launch(**plain, inputs=tensors("inputs"), outputs=tensors("outputs"), **more)
