"""DLPack between torch and another library, which is played by ctypes: capsules are read and made as its header lays them out."""

import ctypes
import gc

import numpy
import pytest
import torch

from torch_npu.utils import dlpack

pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no npu is available")
EXT_DEV, FLOAT = 12, 2  # kDLExtDev, kDLFloat


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class DLManagedTensor(ctypes.Structure):
    pass


Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(DLManagedTensor))
DLManagedTensor._fields_ = [("tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", Deleter)]

python = ctypes.pythonapi
python.PyCapsule_GetPointer.restype, python.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Producer:
    """Another library's array on a card: memory of its own, a deleter that counts, a stream that it is told."""

    def __init__(self, shape, strides, device_type=EXT_DEV, card=0, offset=0, memory=4096):
        self.address = torch.npu.caching_allocator_alloc(memory, card)
        self.deleted, self.asked = 0, []
        self._shape, self._strides = (ctypes.c_int64 * len(shape))(*shape), (ctypes.c_int64 * len(shape))(*strides)
        self._deleter = Deleter(self._delete)
        self._managed = DLManagedTensor(
            DLTensor(self.address, device_type, card, len(shape), FLOAT, 32, 1, self._shape, self._strides, offset), None, self._deleter)
        self.device = device_type, card

    def _delete(self, _):
        self.deleted += 1
        torch.npu.caching_allocator_delete(self.address)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None):  # as libraries wrote it before DLPack had versions
        self.asked.append(stream)
        return python.PyCapsule_New(ctypes.addressof(self._managed), b"dltensor", None)


def test_a_consumer_finds_the_memory_and_gives_it_back():
    before = torch.npu.memory_allocated(1)
    x = torch.arange(12.0, device="npu:1").view(3, 4).t()[1:]
    address = x.data_ptr()
    capsule = x.__dlpack__()
    pointer = python.PyCapsule_GetPointer(capsule, b"dltensor")
    managed = DLManagedTensor.from_address(pointer)
    tensor = managed.tensor
    assert (tensor.device_type, tensor.device_id, tensor.code, tensor.bits, tensor.lanes) == (EXT_DEV, 1, FLOAT, 32, 1)
    assert (tensor.shape[:2], tensor.strides[:2]) == ([3, 3], [1, 4]) and tensor.data + tensor.byte_offset == address
    python.PyCapsule_SetName(capsule, b"used_dltensor")
    del x
    gc.collect()
    assert torch.npu.memory_allocated(1) > before  # the consumer has it
    managed.deleter(ctypes.pointer(managed))
    assert torch.npu.memory_allocated(1) == before
    with pytest.raises(RuntimeError, match="consumed only once"):
        torch.utils.dlpack.from_dlpack(capsule)


@pytest.mark.parametrize("function", [torch.from_dlpack, dlpack.from_dlpack])
def test_memory_of_another_library_is_a_tensor(function):
    producer = Producer((2, 3), (1, 2), card=1)
    x = function(producer)
    assert x.device == torch.device("npu", 1) and x.shape == (2, 3) and x.stride() == (1, 2) and x.data_ptr() == producer.address
    x.copy_(torch.arange(6.0).view(2, 3))
    assert (x @ x.t()).tolist() == [[5, 14], [14, 50]]
    assert producer.deleted == 0
    del x
    assert producer.deleted == 1


def test_the_producer_is_told_the_stream_that_reads():
    producer, stream = Producer((4,), (1,)), torch.npu.Stream()
    with torch.npu.stream(stream):
        x = dlpack.from_dlpack(producer)
    assert producer.asked[-1] == stream.npu_stream
    del x
    assert producer.deleted == 1


@pytest.mark.parametrize("device_type", [3, 999])
def test_capsules_of_other_devices_are_refused(device_type):
    producer = Producer((4,), (1,), device_type)
    with pytest.raises((RuntimeError, BufferError), match="[Dd]evice"):
        torch.from_dlpack(producer)
    torch.npu.caching_allocator_delete(producer.address)


def test_a_capsule_of_a_card_that_is_not_there_cannot_be_computed_with():
    producer = Producer((4,), (1,))
    producer._managed.tensor.device_id = 99
    x = torch.from_dlpack(producer)
    with pytest.raises(RuntimeError, match="npu:99 was asked for, but this process sees"):
        x + 1


def test_numpy_reads_the_host_and_says_no_to_the_card():
    x = torch.arange(4.0, device="npu")
    with pytest.raises((RuntimeError, BufferError), match="[Uu]nsupported device"):
        numpy.from_dlpack(x)
    assert numpy.from_dlpack(x.cpu()).tolist() == [0, 1, 2, 3]
    assert torch.from_dlpack(numpy.arange(3.0), device="npu").tolist() == [0, 1, 2]
    assert torch.from_dlpack(x, device="cpu").tolist() == [0, 1, 2, 3]
