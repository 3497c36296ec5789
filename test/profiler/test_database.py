"""The databases of the trace that test_analysis.py writes down: every row is known."""

import sqlite3
import stat

import pytest
from test_analysis import GROUP, made

from torch_npu.profiler.analysis import database, naming
from torch_npu.profiler.analysis.trace import Trace

THREAD = 3 << 32  # of the process with number 3
NONE = 2**32 - 1
INFO = {"device_name": "Ascend910B1", "host_uid": "77", "host_name": "host",
        "mstx": [{"begin": 10, "end": 10, "thread": 7, "message": "mark", "domain": "d"},
                 {"begin": 20, "end": 30, "thread": 8, "message": "range", "domain": "e"}],
        "gc": [{"begin": 5, "end": 6, "thread": 9}]}


class Tables:
    """Rows of a database; numbers of texts are those texts, in the columns that have them."""

    def __init__(self, file):
        with sqlite3.connect(file) as connection:
            names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            self.all = {}
            for name in names:
                found = connection.execute(f"SELECT * FROM {name}")
                self.all[name] = [dict(zip([column[0] for column in found.description], row, strict=True)) for row in found]
        texts = {row["id"]: row["value"] for row in self.all.get("STRING_IDS", [])}
        assert len(set(texts.values())) == len(texts)
        self.text = texts.get

    def of(self, table, *columns, texts=()):
        return [tuple(self.text(row[name], row[name]) if name in texts else row[name] for name in columns) for row in self.all[table]]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """written(rank, calls, trace, info): both databases."""
    def write(rank=None, calls=True, trace=None, info=INFO):
        folder = tmp_path_factory.mktemp("database")
        trace = trace or made()
        trace.begin, trace.end = 100, 9999
        database.write(folder, trace, info, {"a": "1", "b": "{}"}, rank, calls)
        assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o640}
        first, second = sorted(folder.iterdir())
        assert (first.name, second.name) == ("analysis.db", f"ascend_pytorch_profiler{'' if rank is None else f'_{rank}'}.db")
        return Tables(second), Tables(first)

    return write


@pytest.fixture(scope="module")
def both(written):
    return written()


def test_what_the_profile_is_about(both, written):
    found = both[0]
    assert found.of("SESSION_TIME_INFO", "startTimeNs", "endTimeNs") == [(100, 9999)]
    assert found.of("NPU_INFO", "id", "name") == [(0, "Ascend910B1"), (1, "Ascend910B1")]
    assert found.of("RANK_DEVICE_MAP", "rankId", "deviceId") == [(-1, 0)]
    assert found.of("HOST_INFO", "hostUid", "hostName") == [("77", "host")]
    assert found.of("META_DATA", "name", "value") == [("a", "1"), ("b", "{}")]
    assert found.of("STEP_TIME", "id", "startNs", "endNs") == [(4, 4200, 9000), (5, 9000, 9100)]
    assert {row["name"]: row["id"] for row in found.all["ENUM_API_TYPE"]} == {
        "op": 50001, "queue": 50002, "trace": 50003, "mstx": 50004, "acl": 20000, "model": 15000, "node": 10000, "runtime": 5000}
    assert written(rank=0)[0].of("RANK_DEVICE_MAP", "rankId", "deviceId") == [(0, 0)]
    bare = written(trace=Trace(), info={})[0]
    assert bare.of("HOST_INFO", "hostUid", "hostName") == [("", "")] and bare.of("NPU_INFO", "id", "name") == []
    assert not {"MEMORY_RECORD", "OP_MEMORY", "MSTX_EVENTS", "GC_RECORD"} & bare.all.keys() and "TASK" in bare.all


def test_what_the_host_did(both):
    found = both[0]
    columns = ("startNs", "endNs", "globalTid", "connectionId", "name", "sequenceNumber", "fwdThreadId", "inputDtypes", "inputShapes",
               "callchainId", "type")
    queue = 1 << 30
    rows = found.of("PYTORCH_API", *columns, texts=("name", "inputDtypes", "inputShapes"))
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert sorted(rows, key=lambda row: (row[0], row[4])) == [
        (1000, 9000, THREAD | 7, 1, "outer", 5, 3, "float", "2,3", 1, 50001),
        (1000, 9000, THREAD | 7, None, "step", None, None, None, None, None, 50001),
        (1100, 1300, THREAD | 7, None, "f.py(3): f", None, None, None, None, None, 50003),
        (1500, 1600, THREAD | 7, queue | 11, "Enqueue@enqueued", None, None, None, None, None, 50002),
        (1700, 2000, THREAD | 8, queue | 11, "Dequeue@launch", None, None, None, None, None, 50002),
        (2000, 4000, THREAD | 7, 2, "inner", None, 0, None, None, None, 50001)]
    assert found.of("CONNECTION_IDS", "id", "connectionId") == [(1, 11), (2, 13)]
    assert found.of("PYTORCH_CALLCHAINS", "id", "stack", "stackDepth", texts=("stack",)) == [(1, "f", 0), (1, "g", 1)]


def test_stacks_and_connections_have_numbers_of_their_own(written):
    trace = made()
    outer, inner = trace.operators
    inner.stack = ("h",)
    trace.operators.append(type(outer)("again", 5000, 6000, 7, 3, stack=outer.stack))
    trace.launches[1].operator = outer
    rows = written(trace=trace)[0]
    assert rows.of("CONNECTION_IDS", "id", "connectionId") == [(1, 11), (1, 12), (3, 13)]
    assert {row["connectionId"] for row in rows.all["PYTORCH_API"] if row["type"] == 50001} == {1, 3, None}
    assert {row["callchainId"] for row in rows.all["PYTORCH_API"]} == {None, 1, 2}
    assert rows.of("PYTORCH_CALLCHAINS", "id", "stack", texts=("stack",)) == [(1, "f"), (1, "g"), (2, "h")]


def test_what_the_card_did(both):
    found = both[0]
    columns = ("startNs", "endNs", "deviceId", "connectionId", "globalTaskId", "globalPid", "taskType", "contextId", "streamId", "taskId",
               "modelId")
    rows = found.of("TASK", *columns, texts=("taskType",))
    assert rows[0] == (5000, 6000, 0, 11, 11, 3, "AI_CORE", NONE, 100003, 11, NONE)
    assert rows[4] == (9000, 9500, 1, 14, 14, 3, "MODEL_EXECUTE", NONE, 2, 14, NONE)
    assert [row[6] for row in rows] == ["AI_CORE", "MEMCPY_ASYNC", "COMMUNICATION", "COMMUNICATION", "MODEL_EXECUTE", "AI_CORE",
                                        "COMMUNICATION", "COMMUNICATION"]
    texts = tuple(column for column in found.all["COMPUTE_TASK_INFO"][0] if column not in ("globalTaskId", "blockNum", "mixBlockNum"))
    not_known = dict.fromkeys(texts, "N/A") | {"blockNum": None, "mixBlockNum": None, "taskType": "AI_CORE"}
    first, graph, last = [{name: found.text(value) if name in texts else value for name, value in row.items()}
                          for row in found.all["COMPUTE_TASK_INFO"]]
    assert first == not_known | {"name": "aclnnInplaceMm", "globalTaskId": 11, "opType": "MatMul", "inputDataTypes": "float",
                                 "inputShapes": "2,3"}
    assert graph == not_known | {"name": "graph", "globalTaskId": 14, "opType": "ModelExecute", "taskType": "MODEL_EXECUTE"}
    assert last == not_known | {"name": "aclnnAdd", "globalTaskId": 16, "opType": "Add"}


def test_collectives(both):
    found = both[0]
    one, two = naming.group_number(GROUP), naming.group_number("group_two")
    columns = ("opName", "startNs", "endNs", "connectionId", "groupName", "opId", "relay", "retry", "dataType", "algType", "count",
               "opType", "deviceId")
    rows = found.of("COMMUNICATION_OP", *columns, texts=("opName", "groupName", "algType", "opType"))
    assert rows[0] == (f"hcom_allReduce__{one[-3:]}_0_1", 5500, 8000, 13, one, 13, 0, 0, None, "N/A", 4000000, "hcom_allReduce_", 0)
    assert [(row[0].split("_")[1], row[4], row[10]) for row in rows] == [
        ("allReduce", one, 4000000), ("receive", one, 0), ("allReduce", two, 4000000), ("allReduce", one, 4000000)]


def test_calls_of_the_runtime(both, written):
    rows = both[0].of("CANN_API", "startNs", "endNs", "type", "globalTid", "connectionId", "name", texts=("name",))
    assert rows == [(1700, 2000, 20000, THREAD | 8, 11, "launch"), (3000, 3200, 20000, THREAD | 7, 13, "launch"),
                    (3300, 3400, 20000, THREAD | 7, 14, "launch"), (3500, 3600, 20000, THREAD | 7, 99, "wait")]
    plain, analysis = written(calls=False)
    assert plain.all["CANN_API"] == [] == analysis.all["CommAnalyzerTime"] and len(analysis.all["StepTraceTime"]) == 3


def test_memory(both):
    found = both[0]
    columns = ("component", "timestamp", "totalAllocated", "totalReserved", "totalActive", "streamPtr", "deviceId")
    rows = found.of("MEMORY_RECORD", *columns, texts=("component",))
    assert rows[:2] == [("PTA", 2000, 3 << 20, 4 << 20, 3 << 20, 0, 0), ("PTA", 2000, 1 << 20, 1 << 20, 1 << 20, 0, 1)] and len(rows) == 8
    rows = [tuple(found.text(value) if name == "name" else value for name, value in row.items()) for row in found.all["OP_MEMORY"]]
    assert rows[0] == ("inner", 2048, 2000, 9600, 9600, 7600, 7600, 3 << 20, 4 << 20, 3 << 20, 1 << 20, 4 << 20, 1 << 20, 0, 0)
    assert rows[1] == ("inner", 512, 2000, None, None, None, None, 1 << 20, 1 << 20, 1 << 20, None, None, None, 0, 1)
    assert rows[4] == ("", 4096, None, 9700, 9700, None, None, None, None, None, 0, 4 << 20, 0, 0, 0)


def test_marks_and_collections_of_garbage(both):
    found = both[0]
    columns = ("startNs", "endNs", "eventType", "rangeId", "category", "message", "globalTid", "endGlobalTid", "domainId", "connectionId")
    assert found.of("MSTX_EVENTS", *columns, texts=("message", "domainId")) == [
        (10, 10, 3, 0, 0, "mark", THREAD | 7, THREAD | 7, "d", 0), (20, 30, 2, 1, 0, "range", THREAD | 8, THREAD | 8, "e", 1)]
    assert found.of("GC_RECORD", "startNs", "endNs", "globalTid") == [(5, 6, THREAD | 9)]


def test_steps_and_collectives_by_step(both):
    found = both[1]
    one = naming.group_number(GROUP)
    name = f"hcom_allReduce__{one[-3:]}_0_1@{one}"
    assert [tuple(row.values())[:3] for row in found.all["StepTraceTime"]] == [(0, "4", 1.0), (0, "5", 0.0), (1, "", 0.5)]
    times = {(row["hccl_op_name"], row["step"]): row for row in found.all["CommAnalyzerTime"]}
    assert times[name, "step4"] == {
        "hccl_op_name": name, "group_name": one, "start_timestamp": 5.5, "elapse_time": 0.0025, "transit_time": 0.0025, "wait_time": 0,
        "synchronization_time": 0, "idle_time": 0, "step": "step4", "type": "collective"}
    whole = times["Total Op Info", "step5"]
    assert (whole["group_name"], whole["start_timestamp"], whole["type"]) == ("", 0, "p2p") and len(times) == 6
    moved = [row for row in found.all["CommAnalyzerBandwidth"] if row["hccl_op_name"] == name]
    assert moved == [{"hccl_op_name": name, "group_name": one, "transport_type": "SDMA", "transit_size": 4.0, "transit_time": 0.0025,
                      "bandwidth": 1600.0, "large_packet_ratio": 0, "package_size": 4.0, "count": 1, "total_duration": 0.0025,
                      "step": "step4", "type": "collective"}]


def test_a_file_appears_when_it_is_whole(tmp_path):
    (tmp_path / "x.part").write_text("left over")
    made = database._Database(tmp_path / "x.db", {"STRING_IDS": "id INTEGER PRIMARY KEY, value TEXT", "A": "b, c TEXT"})
    assert [made.string(text) for text in ("p", "q", "p")] == [1, 2, 1]
    made.add("A", iter([(1, "x"), (2, "y")]))
    made.add("A", [])
    assert [file.name for file in tmp_path.iterdir()] == ["x.part"]
    made.finish()
    made.close()  # what with closing() does
    assert [file.name for file in tmp_path.iterdir()] == ["x.db"]
    assert Tables(tmp_path / "x.db").all == {"STRING_IDS": [{"id": 1, "value": "p"}, {"id": 2, "value": "q"}],
                                             "A": [{"b": 1, "c": "x"}, {"b": 2, "c": "y"}]}
    broken = database._Database(tmp_path / "y.db", {"A": "b"})
    broken.close()
    assert [file.name for file in tmp_path.iterdir()] == ["x.db"]
