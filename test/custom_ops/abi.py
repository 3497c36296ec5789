"""run(library, "aclnnName", argument=value ...): an operator of softnpu called through the C ABI, as a client that is not ours would."""

import ctypes
import re
from pathlib import Path

import torch

import torch_npu

ABI = Path(__file__).parents[2] / "abi/aclnn.yaml"
TYPES = {torch.float32: 0, torch.float16: 1, torch.int8: 2, torch.int32: 3, torch.uint8: 4, torch.int64: 9, torch.float64: 11,
         torch.bool: 12, torch.complex64: 16, torch.bfloat16: 27}  # aclDataType
NUMBERS = {"double": ctypes.c_double, "float": ctypes.c_float, "int8": ctypes.c_int8, "int32": ctypes.c_int32, "bool": ctypes.c_bool,
           "uint64": ctypes.c_uint64}


def load():
    """softnpu's operators, with those of its functions that make arguments; None if the operators come from another provider.

    The library that the adapter uses, wherever that is: a mutant of a kernel is in no other.
    """
    if not torch_npu._C.is_softnpu():
        return None
    library = ctypes.CDLL(str(Path(torch_npu._C.runtime_path()) / "libopapi.so"))
    for name in ("aclCreateTensor", "aclCreateTensorList", "aclCreateIntArray", "aclCreateScalar"):
        getattr(library, name).restype = ctypes.c_void_p
    return library


def signature(name):
    line = next(line for line in ABI.read_text().splitlines() if line.startswith(name + ":"))
    return [argument.strip().split() for argument in re.search(r"\((.*)\)", line)[1].split(",")]


def longs(numbers):
    return (ctypes.c_int64 * len(numbers))(*numbers)


def descriptor(library, tensor):
    layout = {3: 47, 4: 0, 5: 30}.get(tensor.dim(), 2)  # NCL, NCHW, NCDHW, else ND
    return library.aclCreateTensor(longs(tensor.shape), ctypes.c_uint64(tensor.dim()), TYPES[tensor.dtype], longs(tensor.stride()),
                                   ctypes.c_int64(0), layout, longs([tensor.numel()]), ctypes.c_uint64(1),
                                   ctypes.c_void_p(tensor.data_ptr()))


def argument(library, kind, value):
    """As C: nothing for a tensor that is not given, and 0 for a number."""
    if kind.startswith("Tensor[]"):
        pointers = [descriptor(library, tensor) for tensor in value]
        handles = (ctypes.c_void_p * len(pointers))(*pointers)
        return ctypes.c_void_p(library.aclCreateTensorList(handles, ctypes.c_uint64(len(pointers))))
    if kind.startswith("Tensor"):
        return ctypes.c_void_p(None if value is None else descriptor(library, value))
    if kind == "int[]":
        return ctypes.c_void_p(library.aclCreateIntArray(longs(value or []), ctypes.c_uint64(len(value or []))))
    if kind == "Scalar":
        return ctypes.c_void_p(library.aclCreateScalar(ctypes.byref(ctypes.c_double(value)), TYPES[torch.float64]))
    if kind == "str":
        return ctypes.c_char_p((value or "").encode())
    return NUMBERS.get(kind, ctypes.c_int64)(value or 0)


def run(library, name, **given):
    """Both phases, and waits."""
    names = [n for _, n in signature(name)]
    assert not set(given) - set(names), set(given) - set(names)
    arguments = [argument(library, kind, given.get(name)) for kind, name in signature(name)]
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    torch.npu.synchronize()
    assert getattr(library, name + "GetWorkspaceSize")(*arguments, ctypes.byref(size), ctypes.byref(executor)) == 0
    workspace = torch.empty(max(size.value, 1), dtype=torch.uint8, device="npu")
    stream = ctypes.c_void_p(torch.npu.current_stream().npu_stream)
    assert getattr(library, name)(ctypes.c_void_p(workspace.data_ptr()), size, executor, stream) == 0
    torch.npu.synchronize()
