"""Recordings of SOFTNPU_RECORD as Python objects: regions of programs, calls, and the form of a call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

COPIES = {0: "copy h2h", 1: "copy h2d", 2: "copy d2h", 3: "copy d2d"}
RANDOM = ("seed", "offset")  # in the name of an argument whose value differs from run to run
# What says nothing of an operator: asking, waiting, memory for the caching allocator, descriptors.
SILENT = ("aclGet", "aclrtGet", "aclrtQuery", "aclrtSynchronize", "aclrtMalloc", "aclrtFree", "aclCreate", "aclDestroy", "aclrtSetDevice",
          "aclrtSetCurrentContext", "aclrtPeek", "aclrtCreateEvent", "aclrtDestroyEvent", "CanUsePTACache", "InitPTACache",
          "UnInitPTACache", "SetPTA", "AddTensorAddr", "PTAFind", "PTAGet", "aclrtCtxSetSysParamOpt", "aclrtSetSysParamOpt",
          "HcclGetCommAsyncError", "aclmdlRICapture", "aclrtRecordEvent", "aclrtStreamWaitEvent")


@dataclass
class Call:
    name: str
    arguments: list  # pairs of name and value
    code: int = 0
    thread: int = 0
    mark: str = ""  # of the recording, the last one before the call

    @property
    def short(self) -> str:
        if self.name.startswith("aclrtMemcpy"):
            return COPIES.get(dict(self.arguments).get("kind", 3), "copy")
        return "memset" if self.name.startswith("aclrtMemset") else self.name


@dataclass
class Region:
    end: str = "crash"
    calls: list[Call] = field(default_factory=list)


def lines(file: Path) -> Iterator[dict]:
    with file.open() as opened:
        for line in opened:
            try:
                yield json.loads(line)
            except ValueError:  # a process that ended within a line
                continue


def is_phase_two(line: dict) -> bool:
    return [name for name, _ in line["a"]][-2:] == ["executor", "stream"]


class Launches:
    """Phases one whose phase two has not come yet. The device gets operators in the order of phase two: at level 2 of the task queue a
    thread makes some phases one itself, while those of earlier launches are still to come on the queue's thread."""

    def __init__(self) -> None:
        self.begun: list[Call] = []

    def end(self, name: str, thread: int) -> list[Call]:
        """The launch of which this is phase two, if phase one was not skipped: the same thread's, or the first of another."""
        found = [call for call in self.begun if call.name == name]
        own = [call for call in found if call.thread == thread]
        for call in own[-1:] or found[:1]:
            self.begun.remove(call)
            return [call]
        return []


def load(file: Path, silent: bool = False) -> dict[str, Region]:
    """Regions by name. A launch of an operator is its phase one, in the place of its phase two: what that one adds is not kept unless
    `silent` is asked for, which gives all calls in their own order."""
    regions: dict[str, Region] = {}
    region, launches = None, Launches()
    for line in lines(file):
        mark = line.get("mark")
        if mark is None:
            if region is None:
                continue
            call = Call(line["f"], line["a"], line["rc"], line["thread"])
            if silent:
                region.calls.append(call)
            elif is_phase_two(line):
                region.calls += launches.end(call.name, call.thread)
            elif call.name.startswith("aclnn") and call.code == 0:
                launches.begun.append(call)
            elif not call.name.startswith(SILENT):
                region.calls.append(call)
        elif mark.startswith("B "):
            region = regions[mark[2:]] = Region()
            launches = Launches()
        elif region is not None:
            region.calls += launches.begun  # which nobody ended
            region.end, region = mark[2:], None
    return regions


def is_tensor(value) -> bool:
    return isinstance(value, dict) and "t" in value


def is_contiguous(tensor: dict) -> bool:
    wanted = 1
    for size, stride in zip(reversed(tensor["t"]), reversed(tensor["s"])):
        if size != 1 and stride != wanted:
            return False
        wanted *= max(size, 1)
    return True


def form(value, strict: bool = True):
    """What is left of an argument when sizes and numbers are taken away."""
    if value is None:
        return "null"
    if is_tensor(value):
        base = ("tensor", value["d"], len(value["t"]))
        return (*base, value["m"], is_contiguous(value)) if strict else base
    if isinstance(value, dict):
        return ("scalar", value["S"]) if strict else "scalar"
    if isinstance(value, list):
        if value and (isinstance(value[0], dict) or value[0] is None):
            return ("list", tuple(sorted({str(form(v, strict)) for v in value})), len(value) if strict else min(len(value), 2))
        return ("array", len(value))
    return type(value).__name__


def form_of(call: Call, strict: bool = True) -> tuple:
    if call.name.startswith("aclnn") or call.name.startswith("Hccl"):
        keep = {"type", "op"} if call.name.startswith("Hccl") else None
        return (call.name, tuple(v if keep else form(v, strict) for n, v in call.arguments if keep is None or n in keep))
    return (call.short, ())


def normal(value, strict: bool):
    """A tensor without what means nothing: strides of single elements, of empty tensors, which memory an empty one has."""
    if is_tensor(value):
        tensor = dict(value)
        if 0 in tensor["t"]:
            tensor["s"], tensor["p"], tensor["n"], tensor["o"] = [], 0, [], 0
        else:
            tensor["s"] = [s for n, s in zip(tensor["t"], tensor["s"]) if n != 1]
        if not strict:
            del tensor["m"], tensor["n"]
        return tensor
    return [normal(v, strict) for v in value] if isinstance(value, list) else value


def arguments_of(call: Call, strict: bool) -> list:
    if call.name.startswith("aclrt"):
        return [dict(call.arguments).get("count")]
    return [[n, normal(v, strict)] for n, v in call.arguments if n not in ("stream", "comm") and not any(r in n for r in RANDOM)]
