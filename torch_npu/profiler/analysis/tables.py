"""The CSV files of a profile, as headers and rows. Columns are what MindStudio's tools read; N/A is what no counter here tells."""

from collections import defaultdict
from statistics import pvariance

from torch_npu.profiler.analysis import naming
from torch_npu.profiler.analysis.intervals import Overlap, minus, total
from torch_npu.profiler.analysis.naming import NOT_KNOWN, microseconds
from torch_npu.profiler.analysis.trace import Trace

Table = tuple[list[str], list[list]]
_MB = 1024 * 1024


def kernel_details(trace: Trace, metrics: bool) -> Table:
    """Every launch once, in the order of their begins on the card."""
    header = ["Step Id"] * bool(trace.steps) + [
        "Device_id", "Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Num", "Input Shapes",
        "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats",
    ] + naming.METRIC_COLUMNS * metrics
    names = naming.collective_names(trace.launches)
    rows: list[list] = []
    ends: dict[tuple[int, int], int] = {}
    for launch in trace.launches:
        lane = (launch.device, launch.stream)
        wait = max(0, launch.begin - ends.get(lane, launch.begin))
        ends[lane] = launch.end
        operator = launch.operator
        step: list = ["" if launch.step is None else launch.step] * bool(trace.steps)
        rows.append(step + [
            launch.device, names.get(launch.correlation, launch.name), naming.kernel_type(launch), naming.TASK_TYPES[launch.kind],
            microseconds(launch.begin), microseconds(launch.duration), microseconds(wait), NOT_KNOWN,
            operator.shapes if operator and operator.shapes else NOT_KNOWN, operator.types if operator and operator.types else NOT_KNOWN,
            NOT_KNOWN, NOT_KNOWN, NOT_KNOWN, NOT_KNOWN,
        ] + [NOT_KNOWN] * len(naming.METRIC_COLUMNS) * metrics)
    return header, rows


def operator_details(trace: Trace) -> Table:
    header = ["Name", "Input Shapes", "Call Stack", "Host Self Duration(us)", "Host Total Duration(us)", "Device Self Duration(us)",
              "Device Total Duration(us)", "Device Self Duration With AICore(us)", "Device Total Duration With AICore(us)"]
    return header, [[
        operator.name, operator.shapes, ";\n".join(operator.stack), microseconds(operator.host_self), microseconds(operator.duration),
        microseconds(operator.device_self), microseconds(operator.device_total), NOT_KNOWN, NOT_KNOWN,
    ] for operator in trace.operators]


def op_statistic(trace: Trace) -> Table:
    header = ["Device_id", "OP Type", "Core Type", "Count", "Total Time(us)", "Min Time(us)", "Avg Time(us)", "Max Time(us)", "Ratio(%)"]
    groups = defaultdict(list)
    for launch in trace.launches:
        if launch.kind in ("kernel", "graph"):
            groups[launch.device, naming.kernel_type(launch), naming.TASK_TYPES[launch.kind]].append(launch.duration)
    whole = sum(map(sum, groups.values())) or 1
    return header, [[
        *key, len(times), microseconds(sum(times)), microseconds(min(times)), microseconds(sum(times) // len(times)),
        microseconds(max(times)), f"{100 * sum(times) / whole:.3f}",
    ] for key, times in sorted(groups.items(), key=lambda item: -sum(item[1]))]


def api_statistic(trace: Trace) -> Table:
    header = ["Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance"]
    devices = {launch.correlation: launch.device for launch in trace.launches}
    groups = defaultdict(list)
    for call in trace.calls:
        if call.kind != "enqueue":
            groups[devices.get(call.correlation, 0), call.name].append(call.duration)
    return header, [[
        device, "acl", name, microseconds(sum(times)), len(times), microseconds(sum(times) // len(times)), microseconds(min(times)),
        microseconds(max(times)), f"{pvariance(times) / 1e6:.3f}",
    ] for (device, name), times in sorted(groups.items(), key=lambda item: -sum(item[1]))]


STEP_TRACE_HEADER = ["Device_id", "Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", "Stage",
                     "Bubble", "Communication(Not Overlapped and Exclude Receive)", "Preparing"]


def step_trace_rows(trace: Trace) -> list[list]:
    """For each card and step, in microseconds."""
    groups = defaultdict(list)
    for launch in trace.launches:
        groups[launch.device, launch.step].append(launch)
    rows = []
    for (device, step), launches in sorted(groups.items(), key=lambda item: (item[0][0], -1 if item[0][1] is None else item[0][1])):
        overlap = Overlap(launches)
        exclusive = minus(overlap.uncovered, overlap.receiving)
        begin, end = overlap.whole
        bubble = total(overlap.receiving)
        preparing = max(0, begin - trace.steps[step].begin) if step in trace.steps else 0
        numbers = [total(overlap.computing), total(overlap.uncovered), total(overlap.communication) - total(overlap.uncovered),
                   total(overlap.communication), total(overlap.free), end - begin - bubble, bubble, total(exclusive), preparing]
        rows.append([device, "" if step is None else step, *(number / 1000 for number in numbers)])
    return rows


def step_trace_time(trace: Trace) -> Table:
    return STEP_TRACE_HEADER, step_trace_rows(trace)


def allocations(trace: Trace) -> list[tuple]:
    """(operator's name, allocation or None, release or None) for each block of memory that came or went."""
    by_thread = defaultdict(list)
    for operator in trace.operators:
        by_thread[operator.thread].append(operator)
    found: list[list] = []
    live: dict[tuple[int, int], int] = {}
    for event in trace.memory:
        key = (event.device, event.address)
        if event.bytes > 0:
            live[key] = len(found)
            found.append([_innermost(by_thread[event.thread], event.time), event, None])
        elif key in live:
            found[live.pop(key)][2] = event
        else:
            found.append(["", None, event])
    return [tuple(entry) for entry in found]


def _innermost(operators, time: int) -> str:
    """Of the operators of a thread, in the order of their begins, the last one that is open."""
    low, high = 0, len(operators)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if operators[middle].begin <= time else (low, middle)
    operator = operators[low - 1] if low else None
    while operator is not None and operator.end < time:
        operator = operator.parent
    return operator.name if operator else ""


def operator_memory(trace: Trace) -> Table:
    header = ["Name", "Size(KB)", "Allocation Time(us)", "Release Time(us)", "Active Release Time(us)", "Duration(us)",
              "Active Duration(us)", "Allocation Total Allocated(MB)", "Allocation Total Reserved(MB)", "Allocation Total Active(MB)",
              "Release Total Allocated(MB)", "Release Total Reserved(MB)", "Release Total Active(MB)", "Stream Ptr", "Device Type"]
    rows = []
    for name, made, freed in allocations(trace):
        event = made or freed
        duration = microseconds(freed.time - made.time) if made and freed else ""
        rows.append([name, abs(event.bytes) / 1024, microseconds(made.time) if made else "", microseconds(freed.time) if freed else "",
                     microseconds(freed.time) if freed else "", duration, duration, *_totals(made), *_totals(freed), "",
                     f"NPU:{event.device}"])
    return header, rows


def _totals(event) -> list:
    """Allocated, reserved, active: a block is active as long as it is allocated."""
    return ["", "", ""] if event is None else [event.allocated / _MB, event.reserved / _MB, event.allocated / _MB]


def memory_record(trace: Trace) -> Table:
    header = ["Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)", "Total Active(MB)", "Stream Ptr", "Device Type"]
    return header, [["PTA", microseconds(event.time), *_totals(event), "", f"NPU:{event.device}"] for event in trace.memory]
