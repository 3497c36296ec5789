"""Which operators npu has: from torch_npu.utils.op_support(), or from torch's dispatcher where there is no device to ask.

native     an operator of CANN runs it
extension  CANN has no name for it: softnpu runs it, CANN falls back
composite  torch makes it of other operators, which count for themselves
fallback   it runs on the CPU: correct, slower
none       neither npu nor the CPU has it
"""

import functools
from dataclasses import dataclass
from enum import IntEnum

import torch

import torch_npu.utils


class Support(IntEnum):
    NATIVE = 0
    EXTENSION = 1
    COMPOSITE = 2
    FALLBACK = 3
    NONE = 4

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Operator:
    """`name` as the dispatcher writes it, without overload."""

    name: str
    support: Support


_COMPOSITE_KEYS = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


@functools.cache
def _table() -> dict[str, str]:
    return torch_npu.utils.op_support() if torch_npu.npu.is_available() else {}


def overload_support(name: str) -> Support:
    """`name` is for example aten::add.Tensor."""
    if how := _table().get(name):
        return Support.NONE if how == "unsupported" else Support[how.upper()]
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    if has(name, "PrivateUse1"):
        return Support.NATIVE
    if any(has(name, key) for key in _COMPOSITE_KEYS):
        return Support.COMPOSITE
    return Support.FALLBACK if has(name, "CPU") else Support.NONE


@functools.cache
def overloads(name: str) -> tuple[str, ...]:
    """The overloads of aten::add that code calls, as aten::add.Tensor and so on. Those with out= count only if there are no
    others: torch makes them of the functional ones, so that they say nothing about kernels."""
    schemas = torch._C._jit_get_schemas_for_operator(name)
    plain = [schema for schema in schemas if not any(argument.is_out for argument in schema.arguments)] or schemas
    names = [f"{name}.{schema.overload_name}" if schema.overload_name else name for schema in plain]
    return tuple(name for name in names if torch._C._dispatch_has_kernel(name))


@functools.cache
def operator(name: str) -> Operator:
    """An operator with the best support that one of its overloads has: which one a call picks is not known from its source."""
    return Operator(name, min(map(overload_support, overloads(name)), default=Support.NONE))


def exists(name: str) -> bool:
    return bool(overloads(name))
