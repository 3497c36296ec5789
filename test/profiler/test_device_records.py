"""The profile against the card's own clock: when a task ran, as softnpu tells clients of libmspti.so, lies inside of the profile's time."""

import ctypes
from pathlib import Path

import pytest
import torch
from profile_folder import rows
from test_profile import record

import torch_npu

KERNEL, EXTERNAL, CALL = 2, 8, 10
REQUEST = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t))
COMPLETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


class Kernel(ctypes.Structure):
    _pack_ = 4  # a multiple of four lies after `kind`, and the whole is one of eight
    _fields_ = [("kind", ctypes.c_int32), ("start", ctypes.c_uint64), ("end", ctypes.c_uint64), ("device", ctypes.c_uint32),
                ("stream", ctypes.c_uint32), ("correlation", ctypes.c_uint64), ("type", ctypes.c_char_p), ("name", ctypes.c_char_p)]


class Call(ctypes.Structure):
    _pack_ = 4
    _fields_ = [("kind", ctypes.c_int32), ("start", ctypes.c_uint64), ("end", ctypes.c_uint64), ("process", ctypes.c_uint32),
                ("thread", ctypes.c_uint32), ("correlation", ctypes.c_uint64), ("name", ctypes.c_char_p)]


class External(ctypes.Structure):
    _pack_ = 4
    _fields_ = [("kind", ctypes.c_int32), ("external_kind", ctypes.c_int32), ("id", ctypes.c_uint64), ("correlation", ctypes.c_uint64)]


FORMS = {KERNEL: Kernel, CALL: Call, EXTERNAL: External}


class Client:
    """Subscribes, with buffers of `size` bytes, and keeps what it is given as (kind, fields)."""

    def __init__(self, size=1 << 16):
        self.library = ctypes.CDLL(str(Path(torch_npu.__file__).parent / "softnpu" / "lib64" / "libmspti.so"))
        self.size, self.buffers, self.records = size, {}, []
        self.callbacks = REQUEST(self._request), COMPLETE(self._complete)

    def _request(self, buffer, size, most):
        memory = ctypes.create_string_buffer(self.size)
        self.buffers[ctypes.addressof(memory)] = memory
        buffer[0], size[0], most[0] = ctypes.addressof(memory), self.size, 0

    def _complete(self, buffer, size, used):
        record = ctypes.c_void_p()
        while self.library.msptiActivityGetNextRecord(ctypes.c_void_p(buffer), ctypes.c_size_t(used), ctypes.byref(record)) == 0:
            kind = ctypes.cast(record, ctypes.POINTER(ctypes.c_int32))[0]
            found = ctypes.cast(record, ctypes.POINTER(FORMS[kind]))[0]
            self.records.append((kind, {name: getattr(found, name) for name, _ in found._fields_}))
        del self.buffers[buffer]

    def __enter__(self):
        self.handle = ctypes.c_void_p()
        assert self.library.msptiSubscribe(ctypes.byref(self.handle), None, None) == 0
        assert self.library.msptiActivityRegisterCallbacks(*self.callbacks) == 0
        assert [self.library.msptiActivityEnable(kind) for kind in FORMS] == [0, 0, 0]
        return self

    def __exit__(self, *_):
        for kind in FORMS:
            self.library.msptiActivityDisable(kind)
        assert self.library.msptiUnsubscribe(self.handle) == 0
        assert self.library.msptiActivityFlushAll(1) == 0 and not self.buffers

    def of(self, kind):
        return [fields for found, fields in self.records if found == kind]


@pytest.fixture
def x():
    if not torch.npu.is_available() or not torch_npu.is_softnpu():
        pytest.skip("the records are softnpu's")
    x = torch.randn(64, 64).npu()
    (x @ x).relu()
    return x


def test_the_profile_has_each_task_and_no_less_than_its_time(tmp_path, x):
    with Client() as client:
        folder = record(tmp_path, lambda: [(x @ x).relu() for _ in range(5)]).folder
    table, kernels = rows(folder, "kernel_details"), client.of(KERNEL)
    assert [row["Name"] for row in table] == [kernel["name"].decode() for kernel in kernels] == ["aclnnMatmul", "aclnnRelu"] * 5
    for row, kernel in zip(table, kernels, strict=True):
        assert 0 < kernel["end"] - kernel["start"] <= float(row["Duration(us)"]) * 1000 + 2000


def test_records_are_joined_by_number(x):
    with Client() as client:
        client.library.msptiActivityPushExternalCorrelationId(2, ctypes.c_uint64(7))
        x.relu()
        last = ctypes.c_uint64()
        assert client.library.msptiActivityPopExternalCorrelationId(2, ctypes.byref(last)) == 0 and last.value == 7
        assert client.library.msptiActivityPopExternalCorrelationId(2, None) == 5  # nothing is left
        x.relu()
        torch.npu.synchronize()
    first, second = client.of(KERNEL)
    (external,) = client.of(EXTERNAL)
    assert (external["id"], external["correlation"]) == (7, first["correlation"]) and second["correlation"] > first["correlation"]
    assert [call["correlation"] for call in client.of(CALL)] == [first["correlation"], second["correlation"]]
    assert all(call["start"] <= kernel["start"] for call, kernel in zip(client.of(CALL), (first, second), strict=True))


def test_full_buffers_come_back(x):
    with Client(size=200) as client:  # two kernels and a call
        for _ in range(20):
            x.relu()
    assert len(client.of(KERNEL)) == len(client.of(CALL)) == 20


def test_what_cannot_be(x):
    with Client() as client:
        library = client.library
        other = ctypes.c_void_p()
        assert library.msptiSubscribe(ctypes.byref(other), None, None) == 2  # one at a time
        assert library.msptiSubscribe(None, None, None) == library.msptiActivityRegisterCallbacks(None, None) == 1
        assert [library.msptiActivityEnable(kind) for kind in (-1, 0, 1, 5, 99)] == [8] * 5  # kinds that softnpu has not
        assert library.msptiActivityPushExternalCorrelationId(0, ctypes.c_uint64(1)) == 1
    assert client.library.msptiUnsubscribe(None) == 1
    x.relu()
    assert client.records == []
