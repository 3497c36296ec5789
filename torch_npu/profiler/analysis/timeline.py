"""trace_view.json: the timeline for Perfetto, chrome://tracing and MindStudio's tools.

Processes of the picture: Python (operators, ranges, Python functions), CANN (calls, from Level1 on), Ascend Hardware (a lane for each
stream), Communication (a lane for each group), Overlap Analysis. Arrows go from an operator to its launches (async_npu), from a call
to its launch (HostToDevice), along the task queue (async_task_queue) and from forward to backward (fwdbwd).
"""

from torch_npu.profiler.analysis import naming
from torch_npu.profiler.analysis.intervals import Overlap
from torch_npu.profiler.analysis.naming import microseconds
from torch_npu.profiler.analysis.trace import Trace

_PROCESSES = ["Python", "CANN", "Ascend Hardware", "Communication", "Overlap Analysis"]
_LABELS = ["CPU", "CPU", "NPU", "NPU", "NPU"]


class Timeline:
    """Collects the events of one picture."""

    def __init__(self, trace: Trace, info: dict, calls: bool):
        self.trace = trace
        self.events: list[dict] = []
        self._lanes: dict[tuple[str, int], str] = {}
        base = trace.process or 1
        self._ids = {name: base * 32 + place for place, name in enumerate(_PROCESSES)}
        for place, name in enumerate(_PROCESSES):
            self._about(name, 0, "process_name", name=name)
            self._about(name, 0, "process_labels", labels=_LABELS[place])
            self._about(name, 0, "process_sort_index", sort_index=place)
        self._host()
        self._launches()
        self._calls(calls)
        self._flows(calls)
        self._overlap()
        self._marks(info)

    def _about(self, process: str, lane: int, key: str, **args) -> None:
        self.events.append({"ph": "M", "name": key, "pid": self._ids[process], "tid": lane, "args": args})

    def _lane(self, process: str, lane: int, name: str) -> int:
        if (process, lane) not in self._lanes:
            self._lanes[process, lane] = name
            self._about(process, lane, "thread_name", name=name)
            self._about(process, lane, "thread_sort_index", sort_index=lane)
        return lane

    def _add(self, process: str, lane: int, name: str, begin: int, end: int, category: str = "", /, **args) -> None:
        event = {"ph": "X", "name": name, "pid": self._ids[process], "tid": lane, "ts": microseconds(begin),
                 "dur": round((end - begin) / 1000, 3), "args": args}
        if category:
            event["cat"] = category
        self.events.append(event)

    def _flow(self, category: str, name: str, number, begin: tuple, end: tuple) -> None:
        for phase, (process, lane, time) in (("s", begin), ("f", end)):
            event = {"ph": phase, "name": name, "cat": category, "id": str(number), "pid": self._ids[process], "tid": lane,
                     "ts": microseconds(time)}
            self.events.append(event | {"bp": "e"} if phase == "f" else event)

    def _host(self) -> None:
        trace = self.trace
        for operator in trace.operators:
            args: dict[str, object] = {"Sequence number": -1 if operator.sequence is None else operator.sequence,
                                       "Fwd thread id": operator.forward_thread}
            if operator.shapes or operator.types:
                args |= {"Input Dims": operator.shapes, "Input type": operator.types}
            if operator.stack:
                args["Call stack"] = ";\n".join(operator.stack)
            self._add("Python", self._thread(operator.thread), operator.name, operator.begin, operator.end, "cpu_op", **args)
        for entry in trace.annotations:
            self._add("Python", self._thread(entry.thread), entry.name, entry.begin, entry.end, "cpu_op", **{"Sequence number": -1})
        for entry in trace.functions:
            self._add("Python", self._thread(entry.thread), entry.name, entry.begin, entry.end, "python_function")

    def _thread(self, thread: int) -> int:
        return self._lane("Python", thread, f"Thread {thread}")

    def _launches(self) -> None:
        names = naming.collective_names(self.trace.launches)
        groups: dict[str, int] = {}
        for launch in self.trace.launches:
            stream = self._stream(launch)
            self._add("Ascend Hardware", stream, names.get(launch.correlation, launch.name), launch.begin, launch.end, **{
                "Model Id": 4294967295, "Task Type": naming.TASK_TYPES[launch.kind], "Device Id": launch.device,
                "Stream Id": launch.stream, "Task Id": launch.correlation, "Batch Id": 0, "Subtask Id": 4294967295,
                "connection_id": launch.correlation, **({"bytes": launch.bytes} if launch.bytes else {}),
                **({"direction": launch.detail} if launch.kind == "copy" else {})})
            if launch.kind == "collective":
                number = groups.setdefault(launch.detail, 2 * len(groups))
                lane = self._lane("Communication", number, f"Group {naming.group_number(launch.detail)} Communication")
                self._lane("Communication", number + 1, "Plane 0")
                self._add("Communication", lane, names[launch.correlation], launch.begin, launch.end, connection_id=launch.correlation,
                          bytes=launch.bytes, group=launch.detail)

    def _stream(self, launch) -> int:
        return self._lane("Ascend Hardware", launch.device * 100000 + launch.stream % 100000,
                          f"Stream {launch.stream}" if not launch.device else f"Device {launch.device} Stream {launch.stream}")

    def _calls(self, wanted: bool) -> None:
        for call in self.trace.calls:
            if call.kind != "acl":  # the task queue's lanes stand beside the operators'
                self._add("Python", self._thread(call.thread), f"{call.kind.title()}@{call.name}", call.begin, call.end, call.kind,
                          correlation_id=call.correlation)
            if call.kind != "enqueue" and wanted:
                lane = self._lane("CANN", call.thread, f"Thread {call.thread}")
                self._add("CANN", lane, f"AscendCL@{call.name}", call.begin, call.end, connection_id=call.correlation,
                          **{"Thread Id": call.thread, "Mode": "ACL_OP", "level": "acl"})

    def _flows(self, calls: bool) -> None:
        launches = {launch.correlation: launch for launch in self.trace.launches}
        enqueued = {call.correlation: call for call in self.trace.calls if call.kind == "enqueue"}
        for launch in self.trace.launches:
            if launch.operator:
                self._flow("async_npu", "torch_to_npu", launch.correlation,
                           ("Python", launch.operator.thread, launch.operator.begin),
                           ("Ascend Hardware", self._stream(launch), launch.begin))
        for call in self.trace.calls:
            if call.kind != "enqueue" and calls and call.correlation in launches:
                launch = launches[call.correlation]
                self._flow("HostToDevice", "HostToDevice", call.correlation, ("CANN", call.thread, call.begin),
                           ("Ascend Hardware", self._stream(launch), launch.begin))
            if call.kind == "dequeue" and call.correlation in enqueued:
                start = enqueued[call.correlation]
                self._flow("async_task_queue", "async_task_queue", call.correlation, ("Python", start.thread, start.begin),
                           ("Python", call.thread, call.begin))
        ends = {flow: (thread, time) for flow, phase, thread, time in self.trace.forward_backward if phase == "f"}
        for flow, phase, thread, time in self.trace.forward_backward:
            if phase == "s" and flow in ends:
                self._flow("fwdbwd", "fwdbwd", flow, ("Python", thread, time), ("Python", *ends[flow]))

    def _overlap(self) -> None:
        for device in sorted({launch.device for launch in self.trace.launches}):
            overlap = Overlap(launch for launch in self.trace.launches if launch.device == device)
            parts = [("Computing", overlap.computing), ("Communication", overlap.communication),
                     ("Communication(Not Overlapped)", overlap.uncovered), ("Free", overlap.free)]
            for place, (name, spans) in enumerate(parts):
                lane = self._lane("Overlap Analysis", 10 * device + place, name)
                for begin, end in spans:
                    self._add("Overlap Analysis", lane, name, begin, end)

    def _marks(self, info: dict) -> None:
        for mark in info.get("mstx", []):
            self._add("CANN", self._lane("CANN", mark["thread"], f"Thread {mark['thread']}"), mark["message"], mark["begin"], mark["end"],
                      domain=mark["domain"])
        for entry in info.get("gc", []):
            self._add("Python", self._thread(entry["thread"]), "GC", entry["begin"], entry["end"], "GC")
