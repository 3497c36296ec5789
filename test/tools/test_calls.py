"""Recordings of SOFTNPU_RECORD, and what they show of the adapter: it calls the device as the official client was seen to."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/calls"))
import protocol  # noqa: E402
from compare import kind, reason  # noqa: E402
from recording import Call, Region, form_of, is_contiguous, lines, load, normal  # noqa: E402
from vocabulary import Vocabulary  # noqa: E402

PROGRAM = """
import ctypes, torch, torch_npu
images, rows = torch.ones(1, 2, 3, 4).npu(), torch.ones(3, 4).npu()
mark = ctypes.CDLL("libsoftnpu.so").softnpu_record  # which is loaded now
for name, program in {"images": lambda: images.relu(), "sequence": lambda: images[0].relu(), "volume": lambda: images[None].relu(),
                      "rows": lambda: rows.relu(), "refused": lambda: rows @ rows, "again": lambda: rows.relu()}.items():
    mark(f"B {name}".encode())
    try:
        program()
        torch.npu.synchronize()
        mark(b"E ok")
    except RuntimeError:
        mark(b"E refused")
    mark(None)
"""


def recorded(file, level, **environment):
    environment = {**os.environ, **environment, "SOFTNPU_RECORD": str(file), "SOFTNPU_RECORD_ONCE": "0", "TASK_QUEUE_ENABLE": str(level)}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True)
    return load(file, silent=True)


@pytest.fixture(scope="module", params=[0, 1, 2])
def regions(request, tmp_path_factory):
    return request.param, recorded(tmp_path_factory.mktemp("calls") / "ours.jsonl", request.param)


def phases(region):
    """The calls of both phases of relu, by whether they have an executor."""
    found = [call for call in region.calls if call.name in ("aclnnRelu", "aclnnInplaceRelu")]
    return [[call for call in found if ("executor" in dict(call.arguments)) == second] for second in (False, True)]


def test_regions_have_the_calls_between_their_marks(regions):
    _, found = regions
    assert {name: region.end for name, region in found.items()} == {
        "images": "ok", "sequence": "ok", "volume": "ok", "rows": "ok", "refused": "refused", "again": "ok"}
    assert [len(part) for part in phases(found["rows"])] == [1, 1]
    assert not any(call.name.startswith("aclnn") for call in found["refused"].calls)


@pytest.mark.parametrize("program, format", [("rows", 2), ("sequence", 47), ("images", 0), ("volume", 30)])
def test_a_descriptor_names_its_dimensions_by_their_number(regions, program, format):
    _, found = regions
    (first,), _ = phases(found[program])
    assert [value["m"] for _, value in first.arguments] == [format, format]  # ND, NCL, NCHW, NCDHW


def test_descriptors_are_destroyed_behind_phase_two(regions):
    _, found = regions
    for program in ("rows", "images"):
        calls = found[program].calls
        _, (second,) = phases(found[program])
        destroyed = [i for i, call in enumerate(calls) if call.name == "aclDestroyTensor"]
        assert len(destroyed) == 2
        assert calls.index(second) < min(destroyed)


def test_the_executor_cache_is_asked_in_the_observed_order(regions):
    level, found = regions
    names = [call.name for call in found["rows"].calls if "PTA" in call.name or "AddTensorAddr" in call.name]
    hashed = ["SetPTAHashKey", "PTAGetExecCache"] if level < 2 else ["SetPTACacheHashKey", "PTAFindExecCache"]
    start = ["CanUsePTACache", "InitPTACacheThreadLocal", *["AddTensorAddrToCachedList"] * 2]
    known = [*start, *hashed, "UnInitPTACacheThreadLocal"]
    # At level 2 the first call with its types goes the way of level 1.
    assert names in (known, [*start, "SetPTAHashKey", "PTAGetExecCache", "UnInitPTACacheThreadLocal"])


def test_a_limit_of_zero_empties_the_executor_cache(tmp_path):
    def hits(limit):
        file = tmp_path / f"{limit}.jsonl"
        program = "import torch, torch_npu\nx = torch.ones(3).npu()\nfor _ in range(4): x.relu()"
        environment = {**os.environ, "SOFTNPU_RECORD": str(file), "SOFTNPU_RECORD_ONCE": "0",
                       "ACLNN_CACHE_LIMIT": str(limit), "TASK_QUEUE_ENABLE": "0"}
        subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True)
        return [line["rc"] for line in lines(file) if line["f"] == "PTAGetExecCache"]

    assert sum(hits(0)) == 0
    assert sum(hits(100)) >= 2


def test_a_plain_tensor_has_no_blocks_of_a_format_before_it(tmp_path):
    program = """
import torch, torch_npu
x = torch.ones(16, 16, dtype=torch.half).npu()
for _ in range(8): y = torch_npu.npu_format_cast(x, 29) @ x
for _ in range(8): x.relu()
torch.npu.synchronize()"""
    file = tmp_path / "calls.jsonl"
    environment = {**os.environ, "SOFTNPU_RECORD": str(file), "SOFTNPU_RECORD_ONCE": "0", "ACLNN_CACHE_LIMIT": "0"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True)
    stored = [value["n"] for line in lines(file) if line["f"] == "aclnnRelu" for _, value in line["a"] if isinstance(value, dict)]
    assert stored == [[256]] * 16


def test_the_form_of_a_call_has_no_sizes():
    def add(sizes, strides, value):
        tensor = {"t": sizes, "s": strides, "o": 0, "d": 1, "m": 2, "n": [99], "p": 0}
        return Call("aclnnAdds", [["self", tensor], ["other", {"S": 9, "v": value}], ["dim", [1, 2]], ["out", None]])

    assert form_of(add([2, 3], [3, 1], 1)) == form_of(add([4, 5], [5, 1], 2))
    assert form_of(add([2, 3], [3, 1], 1)) != form_of(add([2, 3], [1, 2], 1))  # contiguous or not
    assert form_of(add([2, 3], [3, 1], 1), strict=False) == form_of(add([2, 3], [1, 2], 1), strict=False)
    assert form_of(add([2, 3], [3, 1], 1)) != form_of(add([6], [1], 1))
    assert is_contiguous({"t": [1, 3], "s": [99, 1]})
    assert normal({"t": [1, 3], "s": [99, 1], "o": 0, "d": 1, "m": 2, "n": [3], "p": 0}, True)["s"] == [1]


def written(file, *calls):
    """A recording of one program; a call is a name, whether it is phase two, a thread, a code and the shapes of its tensors."""
    rows = [{"mark": "B program"}]
    for name, second, thread, code, *shapes in calls:
        tensors = [[f"x{i}", {"t": shape, "s": [1], "o": 0, "d": 0}] for i, shape in enumerate(shapes)]
        rows.append({"f": name, "a": [["executor", 1], ["stream", 2]] if second else tensors, "rc": code, "thread": thread})
    file.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"mark": "E ok"}]))
    return file


def test_launches_are_in_the_order_in_which_the_device_gets_them(tmp_path):
    """At level 2 the calling thread (1) makes the first phase one of some types, the queue's thread (2) those of earlier launches."""
    file = written(tmp_path / "calls", ("aclnnAdd", False, 1, 0, [3]), ("aclnnMul", False, 2, 0, [1]), ("aclnnMul", True, 2, 0),
                   ("aclnnAdd", False, 2, 0, [2]), ("aclnnAdd", True, 2, 0), ("aclnnAdd", True, 2, 0), ("aclnnMul", True, 2, 0),
                   ("aclnnSub", False, 1, 161002, [4]), ("aclnnDiv", False, 1, 0, [5]))
    calls = load(file)["program"].calls
    assert [(call.name, call.arguments[0][1]["t"]) for call in calls] == [
        ("aclnnMul", [1]), ("aclnnAdd", [2]), ("aclnnAdd", [3]), ("aclnnSub", [4]), ("aclnnDiv", [5])]
    assert [call.name for call in load(file, silent=True)["program"].calls][:2] == ["aclnnAdd", "aclnnMul"]


def test_another_use_of_the_executor_cache_is_found(tmp_path, capsys):
    def use(name, *words, two=1):
        calls = [(word, False, 1, int(word.startswith("Can"))) for word in ("CanUsePTACache", *words)]
        return written(tmp_path / name, *calls, ("aclnnAdd", False, 1, 0, [2], [2]), ("aclnnAdd", True, two, 0),
                       ("UnInitPTACacheThreadLocal", False, 1, 0))

    key, search, address = "SetPTAHashKey", "PTAGetExecCache", "AddTensorAddrToCachedList"
    official = use("official", "InitPTACacheThreadLocal", address, address, key, search)
    assert protocol.main(official, use("same", "InitPTACacheThreadLocal", address, address, key, search)) == 0
    assert protocol.main(official, use("late", "InitPTACacheThreadLocal", address, address, search, key)) == 1
    assert protocol.main(official, use("fewer", "InitPTACacheThreadLocal", address, key, search)) == 1
    assert protocol.main(official, use("queue", "InitPTACacheThreadLocal", address, address, key, search, two=2)) == 1
    assert "phase one of more or fewer tensors" in capsys.readouterr().out


def test_each_form_is_recorded_once(tmp_path):
    program = """
import torch, torch_npu
rows = torch.ones(3, 4).npu()
for x in (rows, torch.ones(5, 6).npu(), rows.half(), rows.t(), rows[0]): x.relu()
try: rows @ rows
except RuntimeError: pass
torch.npu.synchronize()"""
    file = tmp_path / "calls.jsonl"
    environment = {**os.environ, "SOFTNPU_RECORD": str(file), "SOFTNPU_RECORD_ONCE": "1"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True)
    found = [line for line in lines(file) if line["f"] == "aclnnRelu"]
    # float32 rows of any size, float16, transposed, one dimension
    assert [(a["d"], len(a["t"]), is_contiguous(a)) for ((_, a), _) in (line["a"] for line in found)] == [
        (0, 2, True), (1, 2, True), (0, 2, False), (0, 1, True)]
    assert not any(line["f"].startswith("aclrt") for line in lines(file))


@pytest.mark.parametrize("copies, expected", [
    (["copy d2h", "copy h2d"], "ours goes to the CPU"),
    (["copy d2h"], "ours reads a number of the card"),  # to raise LinAlgError: the result stays where it is
    (["copy h2d"], "ours makes more calls"),
])
def test_what_is_computed_on_the_cpu_comes_back(copies, expected):
    official, ours = Region(), Region()
    official.calls, ours.calls = [Call("aclnnSvd", [])], [Call("aclnnSvd", []), *(Call(name, []) for name in copies)]
    assert kind(official, ours) == expected


def writing(name, *sizes):
    return Call(name, [("out", {"t": list(sizes), "s": [1] * len(sizes), "d": 0})])


@pytest.mark.parametrize("official, ours, expected", [
    ([writing("aclnnMul", 0), writing("aclnnAdd", 3)], [writing("aclnnAdd", 3)], "ours launches nothing for results without elements"),
    ([writing("aclnnInplaceCopy", 3), writing("aclnnAdd", 3)], [writing("aclnnAdd", 3)],
     "ours makes fewer copies: it sends strides, or needs no other type"),
    ([writing("aclnnMul", 3), writing("aclnnAdd", 3)], [writing("aclnnAdd", 3)], "ours makes fewer calls"),
    ([writing("aclnnGelu", 3)], [writing("aclnnGeluV2", 3)], "another version or number of calls"),
    ([writing("aclnnMul", 3), writing("aclnnAdd", 3)], [writing("aclnnAdd", 3), writing("aclnnMul", 3)], "another order"),
])
def test_a_difference_says_what_ours_leaves_out(official, ours, expected):
    assert kind(Region(calls=official), Region(calls=ours)) == expected


def test_a_form_that_the_client_was_not_seen_to_send_needs_a_reason():
    def relu(dtype, strides):
        tensor = {"t": [2, 2], "s": strides, "o": 0, "d": dtype, "p": 0, "m": 2, "n": [4]}
        return Call("aclnnRelu", [["self", tensor], ["out", {**tensor, "s": [2, 1]}]])

    vocabulary = Vocabulary()
    vocabulary.add(relu(0, [2, 1]))
    vocabulary.add(relu(1, [4, 2]))
    rows = [{"name": "aclnnRelu", "what": "types f64 f64", "why": "because"}]
    assert "other combinations" in reason(relu(0, [4, 2]), vocabulary, rows)  # strided was seen of float16
    assert reason(relu(11, [2, 1]), vocabulary, rows) == "because"
    assert reason(relu(9, [2, 1]), vocabulary, rows) == ""
    assert reason(Call("aclnnUnheardOf", relu(0, [2, 1]).arguments), vocabulary, rows) == ""
