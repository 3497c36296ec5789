"""A recorded trace as objects: operators, launches, calls, memory, ranges, steps. Times are nanoseconds of the system's clock.

It is read from kineto's trace, or, after a program that was killed, from the launches that had been written by then.
"""

import json
import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from torch_npu.profiler import _folder
from torch_npu.profiler.analysis.intervals import cut_at

_NPU_DEVICE_TYPE = 20  # c10::DeviceType::PrivateUse1, as kineto's memory events have it


@dataclass
class Range:
    name: str
    begin: int
    end: int
    thread: int

    @property
    def duration(self) -> int:
        return self.end - self.begin


@dataclass
class Operator(Range):
    number: int  # kineto's "External id"
    shapes: str = ""
    types: str = ""
    sequence: int | None = None
    forward_thread: int = 0
    args: dict = field(default_factory=dict)
    stack: tuple[str, ...] = ()  # innermost first
    parent: "Operator | None" = None
    host_self: int = 0
    device_self: int = 0
    device_total: int = 0


@dataclass
class Call(Range):
    """A call that gives work to the card, or its way through the task queue: kind is acl, enqueue or dequeue."""

    kind: str
    correlation: int


@dataclass
class Launch:
    name: str
    kind: str  # kernel, copy, collective, graph
    device: int
    stream: int
    begin: int
    end: int
    operation: int
    correlation: int
    bytes: int = 0
    detail: str = ""  # of a copy its direction, of a collective its group
    operator: Operator | None = None
    step: int | None = None

    @property
    def duration(self) -> int:
        return self.end - self.begin


@dataclass
class Allocation:
    time: int
    address: int
    bytes: int  # negative when freed
    allocated: int
    reserved: int
    device: int
    thread: int


@dataclass
class Trace:
    operators: list[Operator] = field(default_factory=list)
    annotations: list[Range] = field(default_factory=list)
    functions: list[Range] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    memory: list[Allocation] = field(default_factory=list)
    forward_backward: list[tuple[int, str, int, int]] = field(default_factory=list)  # flow, s or f, thread, time
    steps: dict[int, Range] = field(default_factory=dict)
    begin: int = 0
    end: int = 0
    process: int = 0
    complete: bool = True


def read(path: Path) -> Trace:
    """The trace in a profile's folder. Raises FileNotFoundError when there is neither a complete nor a partial one."""
    raw = path / _folder.RAW
    if (raw / _folder.TRACE).exists():
        try:
            trace = _from_kineto(json.loads((raw / _folder.TRACE).read_text(encoding="utf-8")))
        except (ValueError, KeyError) as error:  # cut short by a full disk or a kill
            if not (raw / _folder.LAUNCHES).exists():
                raise ValueError(f"{raw / _folder.TRACE} is damaged: {_folder.reason(error)}") from error
            trace = _from_launches(raw / _folder.LAUNCHES)
    else:
        trace = _from_launches(raw / _folder.LAUNCHES)
    _relate(trace)
    return trace


def _from_launches(path: Path) -> Trace:
    trace = Trace(complete=False)
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:  # the last one ends without a newline when it was cut
        name, kind, device, stream, begin, duration, operation, correlation, size, detail = line.split("\t")
        trace.launches.append(Launch(name, kind, int(device), int(stream), int(begin), int(begin) + int(duration), int(operation),
                                     int(correlation), int(size), detail))
    return trace


def _from_kineto(content: dict) -> Trace:
    trace, base = Trace(), int(content.get("baseTimeNanoseconds", 0))

    def time(event) -> int:
        return base + round(event["ts"] * 1000)

    for event in content["traceEvents"]:
        category, phase = event.get("cat"), event["ph"]
        if phase == "X" and category in _READERS:
            begin = time(event)
            _READERS[category](trace, event, begin, begin + round(event["dur"] * 1000), event.get("args", {}))
        elif phase == "i" and event["name"] == "[memory]":
            args = event["args"]
            if args["Device Type"] == _NPU_DEVICE_TYPE:
                trace.memory.append(Allocation(time(event), args["Addr"], args["Bytes"], args["Total Allocated"], args["Total Reserved"],
                                               args["Device Id"], event["tid"]))
        elif category == "fwdbwd":
            trace.forward_backward.append((event["id"], phase, event["tid"], time(event)))
        elif category == "Trace" and event["name"].startswith("PyTorch Profiler"):
            trace.begin = time(event)
            trace.end = trace.begin + round(event["dur"] * 1000)
        elif phase == "M" and event["name"] == "process_labels" and event["args"].get("labels") == "CPU":
            trace.process = event["pid"]
    return trace


def _text(args: dict, name: str) -> str:
    """Kineto's lists as one text, an entry for each argument: `4,65;128;` """
    value = args.get(name)
    if not isinstance(value, list):
        return ""
    return ";".join(",".join(map(str, entry)) if isinstance(entry, list) else str(entry) for entry in value)


def _operator(trace, event, begin, end, args) -> None:
    trace.operators.append(Operator(event["name"], begin, end, event["tid"], args.get("External id", 0), _text(args, "Input Dims"),
                                    _text(args, "Input type"), args.get("Sequence number"), args.get("Fwd thread id", 0), args))


def _annotation(trace, event, begin, end, args) -> None:
    step = re.fullmatch(r"ProfilerStep#(\d+)", event["name"])
    if step:
        trace.steps[int(step[1])] = Range(event["name"], begin, end, event["tid"])
    trace.annotations.append(Range(event["name"], begin, end, event["tid"]))


def _function(trace, event, begin, end, args) -> None:
    trace.functions.append(Range(event["name"], begin, end, event["tid"]))


def _call(trace, event, begin, end, args) -> None:
    way, _, name = event["name"].partition("@")
    kind = {"AscendCL": "acl", "Enqueue": "enqueue", "Dequeue": "dequeue"}[way]
    trace.calls.append(Call(name, begin, end, event["tid"], kind, args["correlation"]))


def _launch(trace, event, begin, end, args) -> None:
    kind = "copy" if event["cat"] == "gpu_memcpy" else "collective" if "group" in args else "graph" if "graph" in args else "kernel"
    trace.launches.append(Launch(event["name"], kind, args["device"], args["stream"], begin, end, args.get("External id", 0),
                                 args["correlation"], args.get("bytes", 0), args.get("kind", args.get("group", ""))))


_READERS = {"cpu_op": _operator, "user_annotation": _annotation, "python_function": _function, "privateuse1_runtime": _call,
            "kernel": _launch, "gpu_memcpy": _launch}


def _relate(trace: Trace) -> None:
    """Operators get parents, stacks and times of the card; launches their operator and step."""
    trace.launches.sort(key=lambda launch: launch.begin)
    for operators, functions in _by_thread(trace.operators, trace.functions):
        _nest(operators, functions)
    # c10d's ranges of collectives last longer than the call that they began in, and are left alone.
    for ranges, functions in _by_thread((entry for entry in trace.annotations if not entry.name.startswith("hccl:")), trace.functions):
        cut_at(functions, ranges)
    by_number = {operator.number: operator for operator in trace.operators}
    for launch in trace.launches:
        launch.operator = by_number.get(launch.operation)
        launch.step = _step_of(trace, launch.operator.begin if launch.operator else launch.begin)
        if launch.operator:
            launch.operator.device_self += launch.duration
        operator = launch.operator
        while operator:
            operator.device_total += launch.duration
            operator = operator.parent
    if not trace.begin:
        times = [launch.begin for launch in trace.launches] + [operator.begin for operator in trace.operators]
        trace.begin = min(times, default=0)
        trace.end = max((launch.end for launch in trace.launches), default=trace.begin)


def _by_thread(ranges, functions):
    threads: dict[int, tuple[list, list]] = defaultdict(lambda: ([], []))
    for entry in ranges:
        threads[entry.thread][0].append(entry)
    for function in functions:
        threads[function.thread][1].append(function)
    return threads.values()


def _nest(operators: list[Operator], functions: list[Range]) -> None:
    """One sweep over a thread's ranges in the order of their begins, with those that are open on a stack."""
    open_ranges: list[Range] = []
    for entry in sorted([*operators, *functions], key=lambda entry: (entry.begin, -entry.end)):
        while open_ranges and open_ranges[-1].end <= entry.begin:
            open_ranges.pop()
        if isinstance(entry, Operator):
            entry.host_self = entry.duration
            above = list(reversed(open_ranges))
            entry.parent = next((other for other in above if isinstance(other, Operator)), None)
            if entry.parent:
                entry.parent.host_self -= entry.duration
            if functions:
                entry.stack = tuple(other.name for other in above if not isinstance(other, Operator))
        open_ranges.append(entry)


def _step_of(trace: Trace, time: int) -> int | None:
    numbers = sorted(trace.steps)
    place = bisect_right([trace.steps[number].begin for number in numbers], time) - 1
    return numbers[place] if place >= 0 else None
