"""Which operators a torch API reaches. A function of torch written in Python is read, from torch's own source, by the same
analysis; what it calls counts. Nothing of torch is run for it."""

import ast
import functools
import inspect
import textwrap
import types

import torch

from torch_npu.migrate.analysis import operators
from torch_npu.migrate.analysis.operators import Operator, Support
from torch_npu.migrate.analysis.uses import Imports, parse

_MAX_DEPTH = 6
# Methods of a tensor whose operator has another name.
_DUNDER = {"__truediv__": "div", "__rtruediv__": "div", "__rdiv__": "div", "__rsub__": "rsub", "__rpow__": "pow",
           "__invert__": "bitwise_not",
           "__matmul__": "matmul", "__rmatmul__": "matmul", "__getitem__": "index", "__setitem__": "index_put_", "__iter__": "unbind",
           "__bool__": "_local_scalar_dense", "__float__": "_local_scalar_dense", "__int__": "_local_scalar_dense",
           "item": "_local_scalar_dense", "tolist": "_local_scalar_dense", "cuda": "_to_copy", "cpu": "_to_copy", "npu": "_to_copy",
           "numpy": "_to_copy", "double": "_to_copy", "float": "_to_copy", "half": "_to_copy", "bfloat16": "_to_copy", "long": "_to_copy",
           "int": "_to_copy", "bool": "_to_copy", "byte": "_to_copy", "short": "_to_copy", "char": "_to_copy", "type": "_to_copy",
           "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor", "__abs__": "abs", "__contains__": "eq"}  # fmt: skip
_PREFIXES = {"torch._C._linalg": "", "torch.linalg": "linalg_", "torch.special": "special_", "torch.fft": "fft_"}


@functools.cache
def resolve(api: str):
    """The object a dotted name stands for, or None. Submodules that nobody has imported are found by name alone."""
    owner = torch
    for part in api.split(".")[1:]:
        try:
            owner = getattr(owner, part)
        except (AttributeError, RuntimeError, NotImplementedError):
            return None
    return owner


@functools.cache
def is_known(api: str) -> bool:
    """Whether this torch has the name. A name below an object (torch.Tensor.shape.numel) is the object's affair."""
    parts = api.split(".")
    owner: object = torch
    for index, part in enumerate(parts[1:], 1):
        if not isinstance(owner, (types.ModuleType, type)):
            return True
        try:
            owner = getattr(owner, part)
        except AttributeError:
            return isinstance(owner, types.ModuleType) and _is_module(".".join(parts[: index + 1]))
        except (RuntimeError, NotImplementedError):
            return True
    return True


def _is_module(name: str) -> bool:
    import importlib.util

    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


@functools.cache
def operators_of(api: str) -> tuple[Operator, ...]:
    """The operators that a call of an API may reach; empty for one that computes nothing, or whose way is not known."""
    if api.startswith("torch.Tensor."):
        name = api.rpartition(".")[2]
        return _named(_DUNDER.get(name, name.strip("_") if name.startswith("__") else name))
    value = resolve(api)
    if value is None or isinstance(value, types.ModuleType):
        return ()
    if isinstance(value, type):
        return _of_class(value)
    if inspect.isbuiltin(value) or not inspect.isfunction(inspect.unwrap(value)):
        prefix = next((text for module, text in _PREFIXES.items() if api.startswith(module + ".")), "")
        return _named(prefix + api.rpartition(".")[2])
    found = _of_function(inspect.unwrap(value), _MAX_DEPTH)
    return tuple(sorted(found, key=lambda op: (-op.support, op.name)))


_VENDOR = ("cudnn", "_cudnn", "_use_cudnn", "miopen", "_miopen", "mps", "_mps", "mkldnn", "_mkldnn")  # other devices' own


def _named(name: str) -> tuple[Operator, ...]:
    if name.startswith(_VENDOR):
        return ()
    full = f"aten::{name}"
    return (operators.operator(full),) if operators.exists(full) else ()


def _of_class(cls: type) -> tuple[Operator, ...]:
    """A module reaches what its forward() does, an optimizer what its step() does."""
    names = ("forward", "step") if issubclass(cls, (torch.nn.Module, torch.optim.Optimizer)) else ()
    found: set[Operator] = set()
    for name in names:
        method = inspect.unwrap(getattr(cls, name, None) or len)
        if inspect.isfunction(method) and method.__module__ not in ("torch.nn.modules.module", "torch.optim.optimizer"):
            found |= _of_function(method, _MAX_DEPTH, cls)
    return tuple(sorted(found, key=lambda op: (-op.support, op.name)))


def _of_function(function, depth: int, cls: type | None = None) -> frozenset[Operator]:
    return _read(function, depth, cls) if depth else frozenset()


@functools.cache
def _read(function, depth: int, cls: type | None) -> frozenset[Operator]:
    try:
        tree = parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return frozenset()
    found: set[Operator] = set()
    scope, local = function.__globals__, Imports(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        target = _object(node.func, scope, local, cls)
        if target is None or target is function:
            continue
        unwrapped = inspect.unwrap(target)
        if inspect.isbuiltin(target) or type(target).__name__ in ("method_descriptor", "builtin_function_or_method"):
            found |= set(_named(target.__name__))
        elif inspect.isfunction(unwrapped) and (unwrapped.__module__ or "").startswith("torch"):
            found |= _of_function(unwrapped, depth - 1, cls if _is_self(node.func) else None)
    return frozenset(found)


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _object(node: ast.AST, scope: dict, local: Imports, cls: type | None):
    """The function that a call in torch's source names, looked up without calling anything."""
    if isinstance(node, ast.Name):
        return scope.get(node.id) or (resolve(local.names[node.id]) if node.id in local.names else None)
    if not isinstance(node, ast.Attribute):
        return None
    if _is_self(node) and cls is not None:
        return inspect.getattr_static(cls, node.attr, None)
    owner = _object(node.value, scope, local, None)
    return getattr(owner, node.attr, None) if isinstance(owner, (types.ModuleType, type)) else None


def support_of(api: str) -> Support | None:
    """The support of the least supported operator an API may reach directly; None if it reaches none that is known.

    An operator without any kernel on the CPU counts only if it is all there is: torch's sources branch by device.
    """
    found = operators_of(api)
    reachable = [op.support for op in found if op.support is not Support.NONE]
    return max(reachable) if reachable else (Support.NONE if found else None)
