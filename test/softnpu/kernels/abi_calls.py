"""Calls an aclnn operator by its name with the C arguments of abi/aclnn.yaml, as a client without our adapter does."""

from __future__ import annotations

import ctypes
import re
import sys
from functools import cache
from pathlib import Path

import torch

import torch_npu  # noqa: F401

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
from codegen import aclnn  # noqa: E402

HANDLE, INT64 = ctypes.c_void_p, ctypes.c_int64
# aclDataType, from abi/acl_types.h.
DTYPES = {
    torch.float32: 0,
    torch.float16: 1,
    torch.int8: 2,
    torch.int32: 3,
    torch.uint8: 4,
    torch.int16: 6,
    torch.int64: 9,
    torch.float64: 11,
    torch.bool: 12,
    torch.complex64: 16,
    torch.complex128: 17,
    torch.bfloat16: 27,
    torch.float8_e5m2: 35,
    torch.float8_e4m3fn: 36,
    torch.float8_e8m0fnu: 37,
}
PLAIN = {
    "int": INT64,
    "int32": ctypes.c_int32,
    "int8": ctypes.c_int8,
    "uint64": ctypes.c_uint64,
    "bool": ctypes.c_bool,
    "double": ctypes.c_double,
    "float": ctypes.c_float,
}
ND = 2  # ACL_FORMAT_ND


class Refused(Exception):
    """What phase one, or the stream, says."""


@cache
def libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """libopapi.so and the runtime, the ones that the adapter has loaded."""
    torch.zeros(1, device="npu")
    with open("/proc/self/maps") as maps:
        paths = {Path(line.split()[-1]).name: line.split()[-1] for line in maps if re.search(r"lib(opapi|softnpu)\.so", line)}
    opapi, runtime = ctypes.CDLL(paths["libopapi.so"]), ctypes.CDLL(paths["libsoftnpu.so"])
    for name in ("Tensor", "TensorList", "Scalar", "ScalarList", "IntArray", "BoolArray"):
        getattr(opapi, f"aclCreate{name}").restype = HANDLE
    runtime.aclGetRecentErrMsg.restype = ctypes.c_char_p
    return opapi, runtime


@cache
def signatures() -> dict[str, aclnn.Signature]:
    return aclnn.load(ROOT / "abi")


def array(kind, values):
    return (kind * len(values))(*values)


def tensor(t: torch.Tensor | None) -> int | None:
    if t is None:
        return None
    storage = t.untyped_storage()
    dims = array(INT64, [storage.nbytes() // t.element_size()])
    made = libraries()[0].aclCreateTensor(
        array(INT64, t.shape),
        ctypes.c_uint64(t.dim()),
        DTYPES[t.dtype],
        array(INT64, t.stride()),
        INT64(t.storage_offset()),
        ND,
        dims,
        ctypes.c_uint64(1),
        HANDLE(storage.data_ptr()),
    )
    assert made, "aclCreateTensor gave NULL"
    return made


def scalar(value) -> int | None:
    if value is None:
        return None
    kind, number = (12, ctypes.c_bool) if isinstance(value, bool) else (9, INT64) if isinstance(value, int) else (11, ctypes.c_double)
    return libraries()[0].aclCreateScalar(ctypes.byref(number(value)), kind)


def listed(make, values) -> int:
    handles = array(HANDLE, [make[0](v) for v in values])
    return getattr(libraries()[0], make[1])(handles, ctypes.c_uint64(len(values)))


def argument(kind: str, value):
    opapi = libraries()[0]
    if kind in PLAIN:
        return PLAIN[kind](value)
    if kind == "str":
        return ctypes.c_char_p(value.encode())
    if kind == "dtype":
        return ctypes.c_int(DTYPES[value])
    if kind in ("Tensor", "Tensor?"):
        made = tensor(value)
    elif kind in ("Scalar", "Scalar?"):
        made = scalar(value)
    elif kind == "Tensor[]":
        made = listed((tensor, "aclCreateTensorList"), value)
    elif kind == "Scalar[]":
        made = listed((scalar, "aclCreateScalarList"), value)
    elif value is None:
        made = None
    elif kind == "int[]":
        made = opapi.aclCreateIntArray(array(INT64, value), ctypes.c_uint64(len(value)))
    else:
        made = opapi.aclCreateBoolArray(array(ctypes.c_bool, value), ctypes.c_uint64(len(value)))
    return HANDLE(made)


def check(code: int) -> None:
    if code:
        raise Refused(f"{code}: {(libraries()[1].aclGetRecentErrMsg() or b'').decode()}")


def view_shape(handle) -> list[int]:
    """The shape that an operator has given an output whose size depends on data."""
    dims, count = ctypes.POINTER(INT64)(), ctypes.c_uint64()
    check(libraries()[0].aclGetViewShape(handle, ctypes.byref(dims), ctypes.byref(count)))
    return [dims[i] for i in range(count.value)]


def by_name(name: str, **given) -> list:
    """A value for every argument: the one given, else NULL or 0."""
    nothing = {"bool": False, "str": "", "double": 0.0, "float": 0.0}
    unknown = set(given) - {a.name for a in signatures()[name].arguments}
    assert not unknown, f"{name} has no {unknown}"
    return [given.get(a.name, nothing.get(a.type, 0 if a.type in PLAIN else None)) for a in signatures()[name].arguments]


def call(name: str, *values) -> list[list[int]]:
    """Both phases on the current stream, and the end of the task. Returns the shapes that the tensors then have."""
    opapi = libraries()[0]
    arguments = signatures()[name].arguments
    assert len(arguments) == len(values), f"{name} takes {[a.name for a in arguments]}"
    made = [argument(a.type, v) for a, v in zip(arguments, values)]
    size, executor = ctypes.c_uint64(), HANDLE()
    check(getattr(opapi, name + "GetWorkspaceSize")(*made, ctypes.byref(size), ctypes.byref(executor)))
    workspace = torch.empty(size.value, dtype=torch.uint8, device="npu")
    stream = HANDLE(torch.npu.current_stream().npu_stream)
    check(getattr(opapi, name)(HANDLE(workspace.data_ptr()), size, executor, stream))
    check(libraries()[1].aclrtSynchronizeStream(stream))
    return [view_shape(m) for m, a, v in zip(made, arguments, values) if a.type in ("Tensor", "Tensor?") and v is not None]
