"""The custom operators torch.ops.npu.*, also reached as torch_npu.npu_*, and torch.ops.atb.*.

An operator that has an aclnn name is a row of csrc/ops/tables: schema, device kernel, meta function and gradient are C++. What stands
here has none: a schema in schemas.py and a function of the same name (overload `x.out`: `x_out`) in the family's file, composed from
ATen operators and registered as CompositeImplicitAutograd; those of atb that have no result, or whose lengths are a tensor's numbers,
are for tensors of the npu and of meta alone.
Functions are imported at their first call.
"""

from importlib import import_module

import torch

import torch_npu._C
from torch_npu.custom_ops.schemas import ATB, SCHEMAS

NAMES: set[str] = set()  # of all operators that can be called
REFUSED: dict[str, str] = {}  # operators of the official plugin that cannot, and why
ATB_NAMES = {schema.partition("(")[0].partition(".")[0] for family in ATB.values() for schema in family}
_libraries: list[torch.library.Library] = []


def register() -> None:
    """Called once, when torch_npu is imported."""
    for namespace, families in (("npu", SCHEMAS), ("atb", ATB)):
        library = torch.library.Library(namespace, "DEF")
        _libraries.append(library)
        for family, schemas in families.items():
            for schema in schemas:
                name = schema.partition("(")[0]
                library.define(schema)
                if namespace == "atb" and schema.endswith("-> ()"):
                    library.impl(name, _deferred(family, name), "PrivateUse1")
                    library.impl(name, _nothing, "Meta")
                elif family == "atb_ring":  # lengths are numbers of a tensor, which a fake one does not have
                    library.impl(name, _deferred(family, name), "PrivateUse1")
                    torch.library.register_fake(f"atb::{name}", _deferred(family, f"{name}_fake"), lib=library)
                else:
                    library.impl(name, _deferred(family, name), "CompositeImplicitAutograd")
    refused = torch_npu._C.refused_operators()
    names = {name.removeprefix("npu::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("npu::")}
    NAMES.update(name.partition(".")[0] for name in names - refused.keys() if not name.startswith("_fused_"))
    REFUSED.update((name.partition(".")[0], reason) for name, reason in refused.items() if name.partition(".")[0] not in NAMES)


def _deferred(family: str, name: str):
    """A kernel that imports the function when it is first called."""
    function = None

    def kernel(*args, **kwargs):
        nonlocal function
        if function is None:
            function = getattr(import_module(f"torch_npu.custom_ops.{family}"), name.replace(".", "_"))
        return function(*args, **kwargs)

    return kernel


def _nothing(*_, **__) -> None:
    """What writes into its arguments by lengths, which tensors without numbers do not have."""


def function(name: str):
    """torch_npu.<name>: the operator; `out=` takes the tensors that the schema lists after `*`, in that order."""
    packet = getattr(torch.ops.npu, name)
    if "out" not in packet.overloads() or any(argument.name == "out" for argument in packet.out._schema.arguments):
        return packet
    outs = [argument.name for argument in packet.out._schema.arguments if argument.kwarg_only]

    def call(*args, out=None, **kwargs):
        if out is None:
            return packet(*args, **kwargs)
        tensors = out if isinstance(out, (tuple, list)) else [out]
        return packet.out(*args, **kwargs, **dict(zip(outs, tensors, strict=True)))

    call.__name__ = name
    return call


def refuse(operator: str, **arguments) -> None:
    """Arguments that no composition here gives a meaning to: naming them is better than ignoring them."""
    given = [name for name, value in arguments.items() if value]
    if given:
        raise NotImplementedError(f"{operator} does not support {', '.join(given)}")
