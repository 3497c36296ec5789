"""Reads abi/aclnn.yaml and abi/extension.yaml: the signature of every two-phase operator."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from . import tables

# Type in the table -> (C type of the argument, accessor of softnpu::kernels::Call, C++ type of the kernel's variable).
TYPES = {
    "Tensor": ("const aclTensor*", "tensor", "at::Tensor&"),
    "Tensor?": ("const aclTensor*", "optional", "const std::optional<at::Tensor>"),
    "Tensor[]": ("const aclTensorList*", "tensors", "std::vector<at::Tensor>&"),
    "Scalar": ("const aclScalar*", "scalar", "const at::Scalar&"),
    "Scalar?": ("const aclScalar*", "maybe_scalar", "const std::optional<at::Scalar>"),
    "Scalar[]": ("const aclScalarList*", "scalars", "const std::vector<at::Scalar>&"),
    "int[]": ("const aclIntArray*", "ints", "const at::IntArrayRef"),
    "bool[]": ("const aclBoolArray*", "bools", "const std::vector<uint8_t>&"),
    "int": ("int64_t", "integer", "const int64_t"),
    "int32": ("int32_t", "integer", "const int64_t"),
    "int8": ("int8_t", "integer", "const int64_t"),
    "uint64": ("uint64_t", "integer", "const uint64_t"),
    "bool": ("bool", "integer", "const bool"),
    "double": ("double", "real", "const double"),
    "float": ("float", "real", "const double"),
    "str": ("const char*", "text", "const std::string&"),
    "dtype": ("aclDataType", "dtype", "const at::ScalarType"),
}

DTYPE_SETS = {
    "all": None,
    "float": ["Float", "Half", "BFloat16", "Double"],
    "float+complex": ["Float", "Half", "BFloat16", "Double", "ComplexFloat", "ComplexDouble", "ComplexHalf"],
    "integral": ["Byte", "Char", "Short", "Int", "Long", "Bool", "UInt16", "UInt32", "UInt64"],
}

SHAPES = ("free", "same", "broadcast", "matmul")


@dataclass
class Argument:
    type: str
    name: str
    written: bool = False

    @property
    def optional(self) -> bool:
        return self.type in ("Tensor?", "Scalar?")


@dataclass
class Signature:
    name: str
    arguments: list[Argument] = field(default_factory=list)
    shape: str = "free"
    dtypes: str = "all"

    @property
    def c_types(self) -> list[str]:
        return [TYPES[a.type][0] for a in self.arguments]


def parse(name: str, text: str) -> Signature:
    match = re.fullmatch(r"\((.*)\)((?: \w+=\S+)*)", text.strip())
    if not match:
        raise ValueError(f"{name}: cannot read {text!r}")
    signature = Signature(name)
    for part in filter(None, map(str.strip, match[1].split(","))):
        kind, _, argument = part.rpartition(" ")
        written = "!" in kind
        kind = kind.replace("!", "")
        if kind not in TYPES:
            raise ValueError(f"{name}: unknown type {kind!r} of argument {argument!r}")
        signature.arguments.append(Argument(kind, argument, written))
    set_options(signature, match[2])
    return signature


def set_options(signature: Signature, text: str) -> None:
    """What stands behind the arguments: shape=..., dtypes=..."""
    for key, value in (pair.split("=") for pair in text.split()):
        allowed = {"shape": SHAPES, "dtypes": tuple(DTYPE_SETS)}.get(key)
        if not allowed or value not in allowed:
            raise ValueError(f"{signature.name}: {key}={value} is not one of {allowed}")
        setattr(signature, key, value)


def load(abi: Path) -> dict[str, Signature]:
    """All operators, CANN's and ours, by name."""
    signatures = {}
    for file, prefix in (("aclnn.yaml", ("aclnn", "acl")), ("extension.yaml", ("softnpu",))):
        rows = tables.read(abi / file)
        for name, text in rows.items():
            if not name.startswith(prefix):
                raise rows.fail(f"{name} does not begin with {' or '.join(prefix)}", name)
            try:
                signatures[name] = parse(name, text)
            except ValueError as error:
                raise rows.fail(str(error), name) from None
    return signatures


def write_if_changed(path: Path, text: str) -> None:
    """Keeps time stamps of unchanged outputs, so that nothing is compiled twice."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
