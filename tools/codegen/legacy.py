"""Operators of the interface before aclnn: their signatures, which stand in the tables themselves, and their registration.

    operators:
      Mul: (Tensor x1, Tensor x2, Tensor! y)
      ConfusionTransposeD: "(Tensor x, Tensor! y, int[] perm, int[] shape, bool transpose_first)"
      Elu: (Tensor x, Tensor! y, float alpha=1.0)     # a client may leave alpha out

Inputs, outputs and attributes come in this order. Constants of the host are inputs whose numbers are known when the task runs.
"""

from __future__ import annotations

import re

from . import aclnn

# Type in the table -> (kind of the input or attribute, accessor of softnpu::kernels::Call, C++ type of the kernel's variable).
TYPES = {
    "Tensor": ("input", *aclnn.TYPES["Tensor"][1:]),
    "Tensor?": ("optional", *aclnn.TYPES["Tensor?"][1:]),
    "Tensor[]": ("inputs", *aclnn.TYPES["Tensor[]"][1:]),
    "bool": ("boolean", *aclnn.TYPES["bool"][1:]),
    "int": ("integer", *aclnn.TYPES["int"][1:]),
    "float": ("real", *aclnn.TYPES["float"][1:]),
    "str": ("text", *aclnn.TYPES["str"][1:]),
    "dtype": ("dtype", *aclnn.TYPES["dtype"][1:]),
    "bool[]": ("bools", *aclnn.TYPES["bool[]"][1:]),
    "int[]": ("ints", *aclnn.TYPES["int[]"][1:]),
    "float[]": ("reals", *aclnn.TYPES["Scalar[]"][1:]),
}
INPUTS = ("Tensor", "Tensor?", "Tensor[]")


class Signature(aclnn.Signature):
    defaults: dict[str, str]


def parse(name: str, text: str) -> Signature:
    match = re.fullmatch(r"\((.*)\)((?: \w+=\S+)*)", text.strip())
    if not match:
        raise ValueError(f"{name}: cannot read {text!r}")
    signature = Signature(name)
    aclnn.set_options(signature, match[2])
    signature.defaults = {}
    stage = 0
    for part in filter(None, map(str.strip, match[1].split(","))):
        kind, _, argument = part.rpartition(" ")
        argument, has_default, default = argument.partition("=")
        written = kind == "Tensor!"
        kind = kind.replace("!", "")
        if kind not in TYPES or (has_default and kind in INPUTS):
            raise ValueError(f"{name}: cannot read {part!r}")
        now = 1 if written else 0 if kind in INPUTS else 2
        if now < stage:
            raise ValueError(f"{name}: {argument} comes too late: inputs, outputs, attributes")
        stage = now
        if has_default:
            value(kind, default)  # refuses what it cannot read
            signature.defaults[argument] = default
        signature.arguments.append(aclnn.Argument(kind, argument, written))
    if sum(a.type == "Tensor[]" for a in signature.arguments) > 1:
        raise ValueError(f"{name} has two lists of inputs")
    return signature


def value(kind: str, text: str) -> str:
    """A default as an expression of Value."""
    if kind == "str":
        return f'Value(std::string("{text}"))'
    if kind in ("bool", "int"):
        return f"Value(int64_t{{{text}}})"
    if kind == "float":
        return f"Value(double{{{text}}})"
    if text == "[]" and kind.endswith("[]"):
        return {"int[]": "Value(std::vector<int64_t>())", "bool[]": "Value(std::vector<uint8_t>())", "float[]": "Value(std::vector<Scalar>())"}[kind]
    raise ValueError(f"a default of {kind} cannot be {text!r}")


def registration(signature: Signature) -> str:
    parameters = []
    for a in signature.arguments:
        kind = "output" if a.written else TYPES[a.type][0]
        otherwise = value(a.type, signature.defaults[a.name]) if a.name in signature.defaults else "Value()"
        parameters.append(f"{{LegacyOperator::Kind::{kind}, {otherwise}}}")
    return f"static const LegacyOperator legacy_{signature.name}(op_{signature.name}, {{\n    {', '.join(parameters)}}});\n"
