"""The SQLite form of a profile: ascend_pytorch_profiler[_rank].db and, for steps and collectives, analysis.db."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from torch_npu.profiler import _folder
from torch_npu.profiler.analysis import naming
from torch_npu.profiler.analysis.communication import communication
from torch_npu.profiler.analysis.tables import allocations, step_trace_rows
from torch_npu.profiler.analysis.trace import Trace

# Table: columns, of type INTEGER unless they say otherwise.
_SCHEMA = {
    "STRING_IDS": "id INTEGER PRIMARY KEY, value TEXT",
    "ENUM_API_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "SESSION_TIME_INFO": "startTimeNs, endTimeNs",
    "NPU_INFO": "id, name TEXT",
    "HOST_INFO": "hostUid TEXT, hostName TEXT",
    "RANK_DEVICE_MAP": "rankId, deviceId",
    "META_DATA": "name TEXT, value TEXT",
    "STEP_TIME": "id, startNs, endNs",
    "PYTORCH_API": "startNs, endNs, globalTid, connectionId, name, sequenceNumber, fwdThreadId, inputDtypes, inputShapes, callchainId,"
                   "type",
    "CONNECTION_IDS": "id, connectionId",
    "PYTORCH_CALLCHAINS": "id, stack, stackDepth",
    "CANN_API": "startNs, endNs, type, globalTid, connectionId, name",
    "TASK": "startNs, endNs, deviceId, connectionId, globalTaskId, globalPid, taskType, contextId, streamId, taskId, modelId",
    "COMPUTE_TASK_INFO": "name, globalTaskId, blockNum, mixBlockNum, taskType, opType, inputFormats, inputDataTypes, inputShapes,"
                         "outputFormats, outputDataTypes, outputShapes, attrInfo, opState, hf32Eligible",
    "COMMUNICATION_OP": "opName, startNs, endNs, connectionId, groupName, opId, relay, retry, dataType, algType, count, opType, deviceId",
    "COMMUNICATION_TASK_INFO": "name, globalTaskId, taskType, planeId, groupName, notifyId, rdmaType, srcRank, dstRank, transportType,"
                               "size, dataType, linkType, opId",
    "TASK_PMU_INFO": "globalTaskId, name, value NUMERIC",  # counters of cores: empty, as nothing here reads them
    "ENUM_HCCL_DATA_TYPE": "id, name TEXT",
    "ENUM_HCCL_LINK_TYPE": "id, name TEXT",
    "ENUM_HCCL_TRANSPORT_TYPE": "id, name TEXT",
    "MEMORY_RECORD": "component, timestamp, totalAllocated, totalReserved, totalActive, streamPtr, deviceId",
    "OP_MEMORY": "name, size, allocationTime, releaseTime, activeReleaseTime, duration, activeDuration, allocationTotalAllocated,"
                 "allocationTotalReserved, allocationTotalActive, releaseTotalAllocated, releaseTotalReserved, releaseTotalActive,"
                 "streamPtr, deviceId",
    "MSTX_EVENTS": "startNs, endNs, eventType, rangeId, category, message, globalTid, endGlobalTid, domainId, connectionId",
    "GC_RECORD": "startNs, endNs, globalTid",
}
_ANALYSIS_SCHEMA = {
    "StepTraceTime": "deviceId, step TEXT, computing NUMERIC, communication_not_overlapped NUMERIC, overlapped NUMERIC,"
                     "communication NUMERIC, free NUMERIC, stage NUMERIC, bubble NUMERIC,"
                     "communication_not_overlapped_and_exclude_receive NUMERIC, preparing NUMERIC",
    "CommAnalyzerTime": "hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, elapse_time NUMERIC, transit_time NUMERIC,"
                        "wait_time NUMERIC, synchronization_time NUMERIC, idle_time NUMERIC, step TEXT, type TEXT",
    "CommAnalyzerBandwidth": "hccl_op_name TEXT, group_name TEXT, transport_type TEXT, transit_size NUMERIC, transit_time NUMERIC,"
                             "bandwidth NUMERIC, large_packet_ratio NUMERIC, package_size NUMERIC, count NUMERIC,"
                             "total_duration NUMERIC, step TEXT, type TEXT",
    "CommAnalyzerMatrix": "hccl_op_name TEXT, group_name TEXT, src_rank TEXT, dst_rank TEXT, transport_type TEXT, transit_size NUMERIC,"
                          "transit_time NUMERIC, bandwidth NUMERIC, step TEXT, type TEXT, op_name TEXT",
}
_ONLY_WITH_ROWS = ["MEMORY_RECORD", "OP_MEMORY", "MSTX_EVENTS", "GC_RECORD"]  # the tools take the table for the data
_API_TYPES = {"op": 50001, "queue": 50002, "trace": 50003, "mstx": 50004, "acl": 20000, "model": 15000, "node": 10000, "runtime": 5000}
_NONE = 4294967295
_QUEUE = 1 << 30  # begins the numbers that join the two ends of the task queue; operators' connections count from 1
_MSTX_MARK, _MSTX_RANGE = 3, 2


class _Database:
    """A file that is written as a whole: it appears under its name when it is complete."""

    def __init__(self, path: Path, schema: dict[str, str]):
        self.path, self.part = path, path.with_suffix(".part")
        self.part.unlink(missing_ok=True)
        _folder.open_for_writing(self.part, os.O_EXCL).close()
        self.connection = sqlite3.connect(self.part)
        self.connection.execute("PRAGMA journal_mode = OFF")
        for table, columns in schema.items():
            typed = ", ".join(column if " " in column.strip() else f"{column} INTEGER" for column in columns.split(","))
            self.connection.execute(f"CREATE TABLE {table} ({typed})")
        self._schema = schema
        self._strings: dict[str, int] = {}

    def string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings) + 1)

    def add(self, table: str, rows) -> None:
        rows = list(rows)
        if rows:
            self.connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)

    def finish(self) -> None:
        if self._strings:
            self.add("STRING_IDS", ((number, text) for text, number in self._strings.items()))
        for table in _ONLY_WITH_ROWS:
            if table in self._schema and not self.connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():
                self.connection.execute(f"DROP TABLE {table}")
        self.connection.commit()
        self.connection.close()
        self.part.rename(self.path)

    def close(self) -> None:
        self.connection.close()
        self.part.unlink(missing_ok=True)


def write(output: Path, trace: Trace, info: dict, metadata: dict, rank: int | None, calls: bool) -> None:
    """Writes both databases. `calls`: those of the runtime too."""
    name = "ascend_pytorch_profiler.db" if rank is None else f"ascend_pytorch_profiler_{rank}.db"
    with closing(_Database(output / name, _SCHEMA)) as database:
        _about(database, trace, info, metadata, rank)
        _host(database, trace)
        _card(database, trace, calls)
        _memory(database, trace)
        _marks(database, trace, info)
        database.finish()
    with closing(_Database(output / "analysis.db", _ANALYSIS_SCHEMA)) as database:
        database.add("StepTraceTime", step_trace_rows(trace))
        if calls:
            _communication(database, trace)
        database.finish()


def _about(database, trace, info, metadata, rank) -> None:
    database.add("ENUM_API_TYPE", ((number, name) for name, number in _API_TYPES.items()))
    database.add("SESSION_TIME_INFO", [(trace.begin, trace.end)])
    devices = sorted({launch.device for launch in trace.launches})
    database.add("NPU_INFO", ((device, info.get("device_name", "")) for device in devices))
    database.add("RANK_DEVICE_MAP", ((-1 if rank is None else rank, device) for device in devices[:1]))
    database.add("HOST_INFO", [(info.get("host_uid", ""), info.get("host_name", ""))])
    database.add("META_DATA", metadata.items())
    database.add("STEP_TIME", ((number, step.begin, step.end) for number, step in sorted(trace.steps.items())))


def _thread(trace, number: int) -> int:
    return trace.process << 32 | number


def _host(database, trace) -> None:
    launched: dict[int, list[int]] = {}
    for launch in trace.launches:
        if launch.operator:
            launched.setdefault(id(launch.operator), []).append(launch.correlation)
    chains: dict[tuple[str, ...], int] = {}
    rows: list[tuple] = []
    connections: list[tuple] = []
    for operator in trace.operators:
        connection = None
        if id(operator) in launched:
            connection = len(connections) + 1
            connections += [(connection, correlation) for correlation in launched[id(operator)]]
        chain = chains.setdefault(operator.stack, len(chains) + 1) if operator.stack else None
        rows.append((operator.begin, operator.end, _thread(trace, operator.thread), connection, database.string(operator.name),
                     operator.sequence, operator.forward_thread, _optional(database, operator.types), _optional(database, operator.shapes),
                     chain, _API_TYPES["op"]))
    plain = [(entry, "op") for entry in trace.annotations] + [(entry, "trace") for entry in trace.functions]
    for entry, kind in plain:
        rows.append((entry.begin, entry.end, _thread(trace, entry.thread), None, database.string(entry.name), None, None, None, None, None,
                     _API_TYPES[kind]))
    for call in trace.calls:
        if call.kind != "acl":
            rows.append((call.begin, call.end, _thread(trace, call.thread), _QUEUE | call.correlation,
                         database.string(f"{call.kind.title()}@{call.name}"), None, None, None, None, None, _API_TYPES["queue"]))
    database.add("PYTORCH_API", sorted(rows, key=lambda row: row[0]))
    database.add("CONNECTION_IDS", connections)
    database.add("PYTORCH_CALLCHAINS", ((number, database.string(frame), depth) for stack, number in chains.items()
                                        for depth, frame in enumerate(stack)))


def _optional(database, text: str) -> int | None:
    return database.string(text) if text else None


def _card(database, trace, calls: bool) -> None:
    names = naming.collective_names(trace.launches)
    not_known = database.string(naming.NOT_KNOWN)
    for launch in trace.launches:
        number, operator = launch.correlation, launch.operator
        task_type = database.string(naming.TASK_TYPES[launch.kind])
        kind = database.string(naming.kernel_type(launch))
        database.add("TASK", [(launch.begin, launch.end, launch.device, number, number, trace.process, task_type, _NONE, launch.stream,
                               number, _NONE)])
        if launch.kind in ("kernel", "graph"):
            shapes = _optional(database, operator.shapes if operator else "") or not_known
            types = _optional(database, operator.types if operator else "") or not_known
            database.add("COMPUTE_TASK_INFO", [(database.string(launch.name), number, None, None, task_type, kind, not_known, types, shapes,
                                                not_known, not_known, not_known, not_known, not_known, not_known)])
        elif launch.kind == "collective":
            group = database.string(naming.group_number(launch.detail))
            name = database.string(names[number])
            database.add("COMMUNICATION_OP", [(name, launch.begin, launch.end, number, group, number, 0, 0, None, not_known, launch.bytes,
                                               kind, launch.device)])
    if calls:
        database.add("CANN_API", ((call.begin, call.end, _API_TYPES["acl"], _thread(trace, call.thread), call.correlation,
                                   database.string(call.name)) for call in trace.calls if call.kind != "enqueue"))


def _memory(database, trace) -> None:
    component = database.string("PTA")
    database.add("MEMORY_RECORD", ((component, event.time, event.allocated, event.reserved, event.allocated, 0, event.device)
                                   for event in trace.memory))
    rows = []
    for name, made, freed in allocations(trace):
        event = made or freed
        lasted = freed.time - made.time if made and freed else None
        begin = (made.allocated, made.reserved, made.allocated) if made else (None, None, None)
        end = (freed.allocated, freed.reserved, freed.allocated) if freed else (None, None, None)
        rows.append((database.string(name), abs(event.bytes), made.time if made else None, freed.time if freed else None,
                     freed.time if freed else None, lasted, lasted, *begin, *end, 0, event.device))
    database.add("OP_MEMORY", rows)


def _marks(database, trace, info: dict) -> None:
    rows = []
    for number, mark in enumerate(info.get("mstx", [])):
        kind = _MSTX_MARK if mark["begin"] == mark["end"] else _MSTX_RANGE
        thread = _thread(trace, mark["thread"])
        rows.append((mark["begin"], mark["end"], kind, number, 0, database.string(mark["message"]), thread, thread,
                     database.string(mark["domain"]), number))
    database.add("MSTX_EVENTS", rows)
    database.add("GC_RECORD", ((entry["begin"], entry["end"], _thread(trace, entry["thread"])) for entry in info.get("gc", [])))


def _communication(database, trace) -> None:
    for step, kinds in communication(trace).items():
        for kind, collectives in kinds.items():
            for name, entry in collectives.items():
                group = name.partition("@")[2]
                times, ways = entry["Communication Time Info"], entry["Communication Bandwidth Info"]
                database.add("CommAnalyzerTime", [(
                    name, group, times.get("Start Timestamp(us)", 0), times["Elapse Time(ms)"], times["Transit Time(ms)"],
                    times["Wait Time(ms)"], times["Synchronization Time(ms)"], times["Idle Time(ms)"], step, kind)])
                database.add("CommAnalyzerBandwidth", [(
                    name, group, way, values["Transit Size(MB)"], values["Transit Time(ms)"], values["Bandwidth(GB/s)"],
                    values["Large Packet Ratio"], float(packet), count, time, step, kind)
                    for way, values in ways.items() for packet, (count, time) in values["Size Distribution"].items()])
