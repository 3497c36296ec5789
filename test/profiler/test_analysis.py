"""The analysis of a trace that is written down here: every number of the timeline, the tables and the communication is known."""

import random

import pytest

from torch_npu.profiler.analysis import communication, intervals, naming, tables
from torch_npu.profiler.analysis.timeline import Timeline
from torch_npu.profiler.analysis.trace import Allocation, Call, Launch, Operator, Range, Trace

GROUP = "group_one"


def made() -> Trace:
    outer = Operator("outer", 1000, 9000, 7, 1, "2,3", "float", 5, 3, stack=("f", "g"), host_self=6000, device_self=10, device_total=1500)
    inner = Operator("inner", 2000, 4000, 7, 2, parent=outer)
    launches = [
        Launch("aclnnInplaceMm", "kernel", 0, 100003, 5000, 6000, 1, 11, operator=outer, step=4),
        Launch("copied", "copy", 0, 100003, 6500, 7000, 1, 12, 2048, "h2d", step=4),
        Launch("hccl:all_reduce", "collective", 0, 5, 5500, 8000, 2, 13, 4000000, GROUP, operator=inner, step=4),
        Launch("hccl:recv", "collective", 0, 5, 8500, 9000, 2, 15, 0, GROUP, step=5),
        Launch("graph", "graph", 1, 2, 9000, 9500, 2, 14),
        Launch("aclnnAdd", "kernel", 1, 2, 9200, 9400, 2, 16),
        Launch("hccl:all_reduce", "collective", 0, 5, 9600, 9700, 2, 17, 4000000, "group_two", step=4),
        Launch("hccl:all_reduce", "collective", 0, 5, 9800, 9900, 2, 18, 4000000, GROUP, step=4),
    ]
    calls = [Call("enqueued", 1500, 1600, 7, "enqueue", 11), Call("launch", 1700, 2000, 8, "dequeue", 11), Call("launch", 3000, 3200, 7,
                                                                                                                "acl", 13),
             Call("launch", 3300, 3400, 7, "acl", 14), Call("wait", 3500, 3600, 7, "acl", 99)]
    memory = [Allocation(2000, 64, 2048, 3 << 20, 4 << 20, 0, 7), Allocation(2000, 64, 512, 1 << 20, 1 << 20, 1, 7),
              Allocation(5000, 128, 1024, 2 << 20, 4 << 20, 0, 7), Allocation(9500, 256, 1024, 2 << 20, 4 << 20, 0, 7),
              Allocation(9600, 64, -2048, 1 << 20, 4 << 20, 0, 7), Allocation(9700, 999, -4096, 0, 4 << 20, 0, 7),
              Allocation(900, 320, 1024, 0, 0, 0, 7), Allocation(3000, 384, 1024, 0, 0, 0, 9)]
    return Trace([outer, inner], [Range("step", 1000, 9000, 7)], [Range("f.py(3): f", 1100, 1300, 7)], calls, launches, memory,
                 [(21, "s", 7, 1000), (21, "f", 9, 8000), (22, "s", 7, 1000)], {4: Range("step", 4200, 9000, 7), 5: Range("step", 9000,
                                                                                                                          9100, 7)},
                 process=3)


@pytest.mark.parametrize(("function", "cut"), [
    ((50, 150), (50, 100)),  # opens the outer range
    ((150, 250), (150, 200)),  # opens the inner one
    ((250, 350), (300, 350)),  # closes the inner one
    ((250, 450), (400, 450)),  # closes both
    ((50, 250), (50, 100)),  # opens both
    ((10, 500), (10, 500)), ((210, 290), (210, 290)), ((100, 400), (100, 400)), ((400, 600), (400, 600)), ((0, 100), (0, 100)),
])
def test_functions_are_cut_where_they_cross_ranges(function, cut):
    entry, ranges = Range("f", *function, 7), [Range("inner", 200, 300, 7), Range("outer", 100, 400, 7), Range("before", 20, 30, 7)]
    intervals.cut_at([entry], ranges)
    assert (entry.begin, entry.end) == cut


def events(info=None, calls=True):
    timeline = Timeline(made(), info or {}, calls).events
    pids = {event["pid"]: event["args"]["name"] for event in timeline if event["name"] == "process_name"}
    lanes = {(event["pid"], event["tid"]): event["args"]["name"] for event in timeline if event["name"] == "thread_name"}
    return timeline, pids, lanes


def spans(timeline, pids, lanes, process):
    return [(lanes[event["pid"], event["tid"]], event["name"], event["ts"], event["dur"], event.get("cat"), event["args"])
            for event in timeline if event["ph"] == "X" and pids[event["pid"]] == process]


def test_processes_of_the_picture():
    timeline, pids, lanes = events()
    assert pids == {96: "Python", 97: "CANN", 98: "Ascend Hardware", 99: "Communication", 100: "Overlap Analysis"}
    about = {(event["pid"], event["name"]): event for event in timeline if event["name"] in ("process_labels", "process_sort_index")}
    assert [about[pid, "process_labels"]["args"]["labels"] for pid in pids] == ["CPU", "CPU", "NPU", "NPU", "NPU"]
    assert [about[pid, "process_sort_index"]["args"]["sort_index"] for pid in pids] == [0, 1, 2, 3, 4]
    assert {event["tid"] for event in about.values()} == {0}
    sorted_lanes = [(event["pid"], event["tid"]) for event in timeline if event["name"] == "thread_sort_index"]
    assert sorted(sorted_lanes) == sorted(lanes) and len(set(sorted_lanes)) == len(sorted_lanes)
    assert all(event["args"]["sort_index"] == event["tid"] for event in timeline if event["name"] == "thread_sort_index")
    without = Trace()
    assert Timeline(without, {}, True).events[0]["pid"] == 32


def test_what_the_host_did():
    info = {"gc": [{"thread": 7, "begin": 100, "end": 300}], "mstx": [{"thread": 6, "message": "mark", "begin": 5, "end": 6,
                                                                       "domain": "d"}]}
    timeline, pids, lanes = events(info)
    assert spans(timeline, pids, lanes, "Python") == [
        ("Thread 7", "outer", "1.000", 8.0, "cpu_op", {"Sequence number": 5, "Fwd thread id": 3, "Input Dims": "2,3", "Input type": "float",
                                                     "Call stack": "f;\ng"}),
        ("Thread 7", "inner", "2.000", 2.0, "cpu_op", {"Sequence number": -1, "Fwd thread id": 0}),
        ("Thread 7", "step", "1.000", 8.0, "cpu_op", {"Sequence number": -1}),
        ("Thread 7", "f.py(3): f", "1.100", 0.2, "python_function", {}),
        ("Thread 7", "Enqueue@enqueued", "1.500", 0.1, "enqueue", {"correlation_id": 11}),
        ("Thread 8", "Dequeue@launch", "1.700", 0.3, "dequeue", {"correlation_id": 11}),
        ("Thread 7", "GC", "0.100", 0.2, "GC", {}),
    ]
    acl = {"Mode": "ACL_OP", "level": "acl"}
    mark = ("Thread 6", "mark", "0.005", 0.001, None, {"domain": "d"})
    assert spans(timeline, pids, lanes, "CANN") == [
        ("Thread 8", "AscendCL@launch", "1.700", 0.3, None, {"connection_id": 11, "Thread Id": 8, **acl}),
        ("Thread 7", "AscendCL@launch", "3.000", 0.2, None, {"connection_id": 13, "Thread Id": 7, **acl}),
        ("Thread 7", "AscendCL@launch", "3.300", 0.1, None, {"connection_id": 14, "Thread Id": 7, **acl}),
        ("Thread 7", "AscendCL@wait", "3.500", 0.1, None, {"connection_id": 99, "Thread Id": 7, **acl}), mark]
    assert spans(*events(info, calls=False), "CANN") == [mark]


def test_what_the_card_did():
    timeline, pids, lanes = events()
    found = spans(timeline, pids, lanes, "Ascend Hardware")
    assert [(lane, ts, duration) for lane, _, ts, duration, *_ in found] == [
        ("Stream 100003", "5.000", 1.0), ("Stream 100003", "6.500", 0.5), ("Stream 5", "5.500", 2.5), ("Stream 5", "8.500", 0.5),
        ("Device 1 Stream 2", "9.000", 0.5), ("Device 1 Stream 2", "9.200", 0.2), ("Stream 5", "9.600", 0.1), ("Stream 5", "9.800", 0.1)]
    assert {tid for pid, tid in lanes if pids[pid] == "Ascend Hardware"} == {3, 5, 100002}
    unknown = {"Model Id": 4294967295, "Batch Id": 0, "Subtask Id": 4294967295}
    assert found[0][1] == "aclnnInplaceMm" and found[0][-1] == {
        **unknown, "Task Type": "AI_CORE", "Device Id": 0, "Stream Id": 100003, "Task Id": 11, "connection_id": 11}
    assert found[1][-1] == {**unknown, "Task Type": "MEMCPY_ASYNC", "Device Id": 0, "Stream Id": 100003, "Task Id": 12, "connection_id": 12,
                            "bytes": 2048, "direction": "h2d"}
    one, two = naming.group_number(GROUP), naming.group_number("group_two")
    names = [f"hcom_allReduce__{one[-3:]}_0_1", f"hcom_receive__{one[-3:]}_1_1", f"hcom_allReduce__{two[-3:]}_0_1",
             f"hcom_allReduce__{one[-3:]}_2_1"]
    assert [name for _, name, *_ in found if name.startswith("hcom")] == names
    collectives = spans(timeline, pids, lanes, "Communication")
    assert [(lane, name) for lane, name, *_ in collectives] == list(zip([f"Group {n} Communication" for n in (one, one, two, one)], names))
    assert collectives[0][2:] == ("5.500", 2.5, None, {"connection_id": 13, "bytes": 4000000, "group": GROUP})
    assert {tid: name for (pid, tid), name in lanes.items() if pids[pid] == "Communication"} == {
        0: f"Group {one} Communication", 1: "Plane 0", 2: f"Group {two} Communication", 3: "Plane 0"}


def test_arrows():
    timeline, pids, _ = events()
    arrows = {}
    for event in timeline:
        if event["ph"] in "sf":
            assert ("bp" in event) is (event["ph"] == "f") and event.get("bp", "e") == "e" and event["id"].isdigit()
            arrows.setdefault((event["cat"], event["name"], event["id"]), []).append((event["ph"], pids[event["pid"]], event["tid"],
                                                                                      event["ts"]))
    assert arrows == {
        ("async_npu", "torch_to_npu", "11"): [("s", "Python", 7, "1.000"), ("f", "Ascend Hardware", 3, "5.000")],
        ("async_npu", "torch_to_npu", "13"): [("s", "Python", 7, "2.000"), ("f", "Ascend Hardware", 5, "5.500")],
        ("HostToDevice", "HostToDevice", "11"): [("s", "CANN", 8, "1.700"), ("f", "Ascend Hardware", 3, "5.000")],
        ("HostToDevice", "HostToDevice", "13"): [("s", "CANN", 7, "3.000"), ("f", "Ascend Hardware", 5, "5.500")],
        ("HostToDevice", "HostToDevice", "14"): [("s", "CANN", 7, "3.300"), ("f", "Ascend Hardware", 100002, "9.000")],
        ("async_task_queue", "async_task_queue", "11"): [("s", "Python", 7, "1.500"), ("f", "Python", 8, "1.700")],
        ("fwdbwd", "fwdbwd", "21"): [("s", "Python", 7, "1.000"), ("f", "Python", 9, "8.000")]}
    assert not any(event.get("cat") == "HostToDevice" for event in events(calls=False)[0])


def test_overlap_of_cards():
    timeline, pids, lanes = events()
    found = [(event["tid"], name, ts, duration) for event in timeline if event["ph"] == "X" and pids[event["pid"]] == "Overlap Analysis"
             for name, ts, duration in [(lanes[event["pid"], event["tid"]], event["ts"], event["dur"])]]
    assert found == [
        (0, "Computing", "5.000", 1.0), (1, "Communication", "5.500", 2.5), (1, "Communication", "8.500", 0.5),
        (1, "Communication", "9.600", 0.1),
        (1, "Communication", "9.800", 0.1), (2, "Communication(Not Overlapped)", "6.000", 2.0),
        (2, "Communication(Not Overlapped)", "8.500", 0.5),
        (2, "Communication(Not Overlapped)", "9.600", 0.1), (2, "Communication(Not Overlapped)", "9.800", 0.1),
        (3, "Free", "8.000", 0.5), (3, "Free", "9.000", 0.6), (3, "Free", "9.700", 0.1), (10, "Computing", "9.000", 0.5)]


@pytest.mark.parametrize("seed", range(20))
def test_spans_are_sets_of_moments(seed):
    generator = random.Random(seed)
    drawn = [[(begin, begin + generator.randrange(5)) for begin in (generator.randrange(30) for _ in range(6))] for _ in range(2)]
    one, other = (intervals.union(part) for part in drawn)
    moments = [{moment for begin, end in part for moment in range(begin, end)} for part in (*drawn, one, other, intervals.minus(one,
                                                                                                                                other))]
    assert moments[0] == moments[2] and moments[1] == moments[3] and moments[4] == moments[0] - moments[1]
    assert all(end < begin for (_, end), (begin, _) in zip(one, one[1:])) and all(begin < end for begin, end in intervals.minus(one, other))
    assert intervals.total(one) == len(moments[0])


def test_tables_of_launches_and_operators():
    trace = made()
    header, rows = tables.kernel_details(trace, metrics=False)
    assert header[0] == "Step Id" and all(len(row) == len(header) for row in rows)
    found = [dict(zip(header, row)) for row in rows]
    assert [row["Step Id"] for row in found] == [4, 4, 4, 5, "", "", 4, 4]
    assert [row["Device_id"] for row in found] == [0, 0, 0, 0, 1, 1, 0, 0]
    assert [row["Type"] for row in found] == ["MatMul", "MemcpyAsync", "hcom_allReduce_", "hcom_receive_", "ModelExecute", "Add",
                                              "hcom_allReduce_", "hcom_allReduce_"]
    assert [row["Wait Time(us)"] for row in found] == ["0.000", "0.500", "0.000", "0.500", "0.000", "0.000", "0.600", "0.100"]
    assert [row["Duration(us)"] for row in found][:3] == ["1.000", "0.500", "2.500"] and found[0]["Start Time(us)"] == "5.000"
    assert found[0]["Input Shapes"] == "2,3" and found[0]["Input Data Types"] == "float"
    assert found[2]["Input Shapes"] == found[2]["Input Data Types"] == found[1]["Input Shapes"] == "N/A"
    wide, wide_rows = tables.kernel_details(trace, metrics=True)
    assert wide == header + naming.METRIC_COLUMNS and all(len(row) == len(wide) for row in wide_rows)
    trace.steps = {}
    assert [tables.kernel_details(trace, False)[0][0], tables.kernel_details(trace, False)[1][0][0]] == ["Device_id", 0]
    assert tables.operator_details(trace)[1] == [
        ["outer", "2,3", "f;\ng", "6.000", "8.000", "0.010", "1.500", "N/A", "N/A"], ["inner", "", "", "0.000", "2.000", "0.000", "0.000",
                                                                                      "N/A", "N/A"]]


def test_statistics():
    trace = made()
    trace.launches.append(Launch("aclnnMm", "kernel", 0, 1, 0, 3000, 1, 31))
    assert tables.op_statistic(trace)[1] == [
        [0, "MatMul", "AI_CORE", 2, "4.000", "1.000", "2.000", "3.000", "85.106"],
        [1, "ModelExecute", "MODEL_EXECUTE", 1, "0.500", "0.500", "0.500", "0.500", "10.638"],
        [1, "Add", "AI_CORE", 1, "0.200", "0.200", "0.200", "0.200", "4.255"]]
    assert tables.op_statistic(Trace())[1] == []
    assert tables.api_statistic(trace)[1] == [
        [0, "acl", "launch", "0.500", 2, "0.250", "0.200", "0.300", "0.003"], [1, "acl", "launch", "0.100", 1, "0.100", "0.100", "0.100",
                                                                               "0.000"],
        [0, "acl", "wait", "0.100", 1, "0.100", "0.100", "0.100", "0.000"]]


def test_steps():
    rows = tables.step_trace_rows(made())
    assert [row[:2] for row in rows] == [[0, 4], [0, 5], [1, ""]]
    expected = [[1.0, 2.2, 0.5, 2.7, 1.7, 4.9, 0, 2.2, 0.8], [0, 0.5, 0, 0.5, 0, 0, 0.5, 0, 0], [0.5, 0, 0, 0, 0, 0.5, 0, 0, 0]]
    for row, numbers in zip(rows, expected, strict=True):
        assert row[2:] == pytest.approx(numbers)


def test_memory():
    found = [(name, made and made.time, freed and freed.time) for name, made, freed in tables.allocations(made())]
    assert found == [("inner", 2000, 9600), ("inner", 2000, None), ("outer", 5000, None), ("", 9500, None), ("", None, 9700), ("", 900,
                                                                                                                               None),
                     ("", 3000, None)]
    rows = tables.operator_memory(made())[1]
    assert rows[0] == ["inner", 2.0, "2.000", "9.600", "9.600", "7.600", "7.600", 3.0, 4.0, 3.0, 1.0, 4.0, 1.0, "", "NPU:0"]
    assert rows[1] == ["inner", 0.5, "2.000", "", "", "", "", 1.0, 1.0, 1.0, "", "", "", "", "NPU:1"]
    assert rows[4] == ["", 4.0, "", "9.700", "9.700", "", "", "", "", "", 0.0, 4.0, 0.0, "", "NPU:0"]
    assert tables.memory_record(made())[1][0] == ["PTA", "2.000", 3.0, 4.0, 3.0, "", "NPU:0"] and len(tables.memory_record(made())[1]) == 8


def test_communication_of_steps():
    found = communication.communication(made())
    one, two = naming.group_number(GROUP), naming.group_number("group_two")
    assert found.keys() == {"step4", "step5"} and found["step4"]["p2p"] == found["step5"]["collective"] == {}
    assert set(found["step5"]["p2p"]) == {f"hcom_receive__{one[-3:]}_1_1@{one}", "Total Op Info"}
    assert set(found["step4"]["collective"]) == {f"hcom_allReduce__{one[-3:]}_0_1@{one}", f"hcom_allReduce__{one[-3:]}_2_1@{one}",
                                               f"hcom_allReduce__{two[-3:]}_0_1@{two}", "Total Op Info"}
    first = found["step4"]["collective"][f"hcom_allReduce__{one[-3:]}_0_1@{one}"]
    zeros = {"Wait Time(ms)": 0, "Synchronization Time(ms)": 0, "Idle Time(ms)": 0, "Wait Time Ratio": 0, "Synchronization Time Ratio": 0}
    assert first["Communication Time Info"] == {"Start Timestamp(us)": 5.5, "Elapse Time(ms)": 0.0025, "Transit Time(ms)": 0.0025, **zeros}
    moved = first["Communication Bandwidth Info"]
    assert moved["SDMA"] == {"Transit Size(MB)": 4.0, "Transit Time(ms)": 0.0025, "Bandwidth(GB/s)": 1600.0, "Large Packet Ratio": 0,
                             "Size Distribution": {"4.0": [1, 0.0025]}}
    nothing = {"Transit Size(MB)": 0, "Transit Time(ms)": 0, "Bandwidth(GB/s)": 0, "Large Packet Ratio": 0, "Size Distribution": {}}
    assert [moved[kind] for kind in ("RDMA", "HCCS", "PCIE", "SIP")] == [nothing] * 4
    whole = found["step4"]["collective"]["Total Op Info"]
    assert "Start Timestamp(us)" not in whole["Communication Time Info"]
    assert whole["Communication Bandwidth Info"]["SDMA"]["Transit Size(MB)"] == 12.0
    assert whole["Communication Time Info"]["Elapse Time(ms)"] == pytest.approx(0.0027)
    (size, (count, time)), = whole["Communication Bandwidth Info"]["SDMA"]["Size Distribution"].items()
    assert (size, count, time) == ("4.0", 3, pytest.approx(0.0027))
    assert found["step5"]["p2p"]["Total Op Info"]["Communication Bandwidth Info"]["SDMA"]["Size Distribution"] == {}
    assert communication.communication(Trace()) == {}


def test_words_of_the_tools():
    assert [naming.microseconds(n) for n in (0, 1, 999, 1000, 1234567, -1, -1500)] == ["0.000", "0.001", "0.999", "1.000", "1234.567",
                                                                                       "-0.001", "-1.500"]
    assert naming.collective("broadcast") == "broadcast" and naming.collective("hccl:_unknown_") == "unknown"
    numbers = 0, 0
    for character in b"ab":  # the two hashes side by side
        numbers = numbers[0] * 29 + character, numbers[1] * 131 + character
    assert naming.group_number("ab") == str(numbers[0] * 2**32 + numbers[1])
