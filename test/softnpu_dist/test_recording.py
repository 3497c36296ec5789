"""softnpu trace: the summary of a recording, and that the library writes what it reads."""

import json
import sys

from softnpu import recording


def call(name, *arguments, code=0):
    return json.dumps({"f": name, "a": arguments, "rc": code, "thread": 1})


def tensor(kind, *sizes):
    return {"t": sizes, "s": [1] * len(sizes), "d": kind, "m": 2, "o": 0, "n": 1, "p": 1}


ADD = [["self", tensor(0, 2, 3)], ["other", tensor(1, 3)], ["out", tensor(0, 2, 3)]]
LAUNCH = [["executor", 1], ["stream", 2]]
LINES = [
    call("aclInit"), call("aclnnAdd", *ADD), call("aclnnAdd", *LAUNCH), call("aclnnAdd", *LAUNCH),
    call("aclnnCat", ["tensors", [tensor(27, 1), tensor(9, 1)]]), call("aclnnCat", *LAUNCH),
    call("aclnnExp", ["self", tensor(11, 1)], code=161002),
    call("aclrtMemcpy", ["count", 4], ["kind", 1]), call("aclrtMemcpyAsync", ["count", 4], ["kind", 2], ["stream", 2]),
    call("HcclAllReduce", ["type", 4], ["count", 1], ["op", 0]), call("aclrtMalloc", ["size", 1], code=207001),
    call("CanUsePTACache", code=1), '{"f": "aclnnBro',
]


def test_what_was_called_is_counted(tmp_path):
    (tmp_path / "calls").write_text("\n".join(LINES))
    found = recording.summarise([tmp_path / "calls"])
    counts = {name: (entry.launches, entry.prepared, entry.refused) for name, entry in found.operators.items()}
    assert counts == {"aclnnAdd": (2, 1, 0), "aclnnCat": (1, 1, 0), "aclnnExp": (0, 1, 1)}
    assert list(found.operators["aclnnAdd"].types) == ["float32 float16"]
    assert list(found.operators["aclnnCat"].types) == ["bfloat16 int64"]
    assert found.copies == {"host to card": 1, "card to host": 1} and found.collectives == {"HcclAllReduce": 1}
    lines = recording.text(found).splitlines()
    assert lines[1].split() == ["aclnnAdd", "2", "1", "0", "float32", "float16"]
    assert lines[-4:] == ["3 operators, 3 launches", "collectives: 1 HcclAllReduce", "copies: 1 host to card, 1 card to host",
                          "calls that failed: 1 aclrtMalloc"]
    assert recording.text(found, everything=True).endswith("other calls: 1 aclInit, 1 aclrtMalloc, 1 CanUsePTACache")


def test_codes_of_types_are_the_abis(root):
    header = (root / "abi/acl_types.h").read_text()
    abi = {"float32": "FLOAT", "complex64": "COMPLEX64", "bfloat16": "BF16"}
    for code, name in recording.TYPES.items():
        assert f"ACL_{abi.get(name, name.upper().replace('FLOAT64', 'DOUBLE'))} = {code}," in header, name


CLIENT = """
import ctypes, os
from softnpu import place
acl = place.open_runtime()
assert acl.aclInit(None) == 0 and acl.aclrtSetDevice(0) == 0
memory = ctypes.c_void_p()
assert acl.aclrtMalloc(ctypes.byref(memory), ctypes.c_size_t(64), 0) == 0
assert acl.aclrtMemcpy(memory, ctypes.c_size_t(64), ctypes.create_string_buffer(64), ctypes.c_size_t(64), 1) == 0
os._exit(5)
"""


def test_a_program_is_traced(softnpu, tmp_path):
    done = softnpu("trace", "--cards", 1, "--all", "--out", "kept.jsonl", "--", sys.executable, "-c", CLIENT)
    assert done.returncode == 5
    assert "no operators" in done.stderr and "copies: 1 host to card" in done.stderr and "1 aclrtMalloc" in done.stderr
    assert '"f":"aclrtMalloc"' in (tmp_path / "kept.jsonl").read_text()
    softnpu("run", "--", "true", SOFTNPU_RECORD=str(tmp_path / "own"))
    assert not (tmp_path / "own").exists()  # what softnpu itself asks of the library is not recorded
    again = softnpu("trace", "--out", "kept.jsonl", "--", "true")
    assert again.returncode == 0 and (tmp_path / "kept.jsonl").read_text() == ""  # not of both programs
