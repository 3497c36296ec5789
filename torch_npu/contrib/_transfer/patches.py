"""Sets the redirections of table.py, remembers what stood there, and puts it back.

A module that is not imported yet is changed right after its import: importing all of torch.distributed would take seconds.
"""

import importlib
import inspect
from collections.abc import Container, Iterable
from functools import partial

import torch
from torch.jit import _builtins
from torch.utils import _device

from torch_npu import npu
from torch_npu._after_import import after_import
from torch_npu.contrib._transfer import arguments, dynamo, environment, script, table, wrappers
from torch_npu.contrib._transfer.report import Report, Row

_MISSING = object()
_saved: list[tuple[object, str, object]] = []
_rows: dict[str, Row] = {}
_pending: dict[str, list[tuple]] = {}  # module not imported yet -> arguments of _change()
excluded: list[str] = []


def is_active() -> bool:
    return arguments.enabled


def report() -> Report:
    return Report(list(_rows.values()), list(excluded))


def apply(exclude: Iterable[str]) -> None:
    from torch_npu.contrib._transfer.replacements import REPLACEMENTS, cuda_checkpoints

    excluded[:] = exclude
    arguments.enabled = True
    environment.apply()
    _device._device_constructors()  # torch keeps a set of its factories: it is to hold the originals
    for module, source in table.MODULES.items():
        _mirror(module, importlib.import_module(source), but=REPLACEMENTS)
    for name, ours in table.RENAMED.items():
        if hasattr(npu, ours):
            _patch(name, f"is torch.npu.{ours}", lambda _, row, ours=ours: getattr(npu, ours))
    for name, reason in table.REFUSED.items():
        if name not in _rows and not hasattr(npu, name.rpartition(".")[2]):
            _patch(name, "refused with a reason", lambda _, row, name=name, reason=reason: wrappers.refusing(name, reason, row))
    for name, make in REPLACEMENTS.items():
        _patch(name, "does on npu what it does on CUDA", make)
    for name, spec in table.ARGUMENTS.items():
        _patch(name, f"rewrites {_words(spec)}", lambda old, row, spec=spec: wrappers.rewriting(old, spec, row))
    for name, spec in table.CLASSES.items():
        _patch(name, f"rewrites {_words(spec)}", lambda old, row, spec=spec: wrappers.stand_in(old, spec, row))
    _patch("torch.jit.frontend.parse_def", "TorchScript sources: cuda means npu", script.make_parse_def)
    torch.serialization.register_package(15, lambda obj: None, cuda_checkpoints)
    dynamo.apply()


def undo() -> None:
    from torch_npu.contrib._transfer.replacements import cuda_checkpoints

    if not is_active():
        return
    arguments.enabled = False
    torch.serialization._package_registry[:] = [
        entry for entry in torch.serialization._package_registry if entry[2] is not cuda_checkpoints
    ]
    while _saved:
        owner, name, old = _saved.pop()
        if not inspect.isclass(owner) and (new := owner.__dict__.get(name)) is not None:
            _builtins._get_builtin_table().pop(id(new), None)
        delattr(owner, name) if old is _MISSING else setattr(owner, name, old)
    dynamo.undo()
    environment.undo()
    _rows.clear()
    _pending.clear()
    excluded.clear()


def _words(spec: str) -> str:
    return ", ".join(word.partition("@")[0] for word in spec.split())


def _is_excluded(name: str) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in excluded)


def _mirror(module: str, source, but: Container[str]) -> None:
    """Every public name of a module of torch.npu takes the place of the one in the module of torch.cuda."""
    private = table.PRIVATE_NAMES if module == "torch.cuda" else ()
    private = table.PRIVATE_MEMORY_NAMES if module == "torch.cuda.memory" else private
    public = getattr(source, "__all__", [name for name in vars(source) if not name.startswith("_")])
    for name in [*public, *private]:
        value, target = getattr(source, name), f"{module}.{name}"
        if inspect.ismodule(value) or target in but:
            continue
        if wrappers.is_plain_function(value):
            _patch(target, f"is torch.npu.{name}", lambda _, row, value=value: wrappers.counting(value, row))
        else:
            _patch(target, f"is torch.npu.{name}", lambda _, row, value=value: value)
    if module == "torch.cuda":
        _patch("torch.cuda.__getattr__", "finds what torch.npu computes", lambda _, row: source.__getattr__)
        if "default_generators" in vars(torch.cuda):
            _remove(torch.cuda, "default_generators")


def _patch(target: str, effect: str, make) -> None:
    """Replaces what `target` names by make(what stood there, row). Names that this torch does not have are passed over."""
    name = target.replace(":", ".")
    if _is_excluded(name):
        return
    module, path = target.split(":") if ":" in target else target.rsplit(".", 1)
    _pending.setdefault(module, []).append((path.split("."), name, effect, make))
    after_import(module, partial(_change_pending, module))


def _change_pending(name: str, module) -> None:
    for change in _pending.pop(name, ()):
        _change(module, *change)


def _change(owner, path: list[str], target: str, effect: str, make) -> None:
    for part in path[:-1]:
        owner = getattr(owner, part, _MISSING)
    name = path[-1]
    # torch.npu may have names that torch.cuda lacks and the other way round; a torch without CUDA has no ProcessGroupNCCL.
    is_new = target.startswith(("torch.cuda.", "torch_npu.")) or name == "ProcessGroupNCCL"
    if owner is _MISSING or not (hasattr(owner, name) or is_new):
        return
    old = getattr(owner, name, None)
    row = Row(target, effect)
    new = make(old, row)
    _saved.append((owner, name, _own(owner, name)))
    setattr(owner, name, staticmethod(new) if name == "__new__" else new)
    _rows[target] = row
    dynamo.redirect(target, old, new)
    operator = _builtins._find_builtin(old) if not inspect.isclass(owner) and callable(old) else None
    if operator is not None:  # TorchScript knows torch's functions by identity
        _builtins._register_builtin(new, operator)


def _own(owner, name: str):
    """What the owner itself holds under a name, as it holds it (a staticmethod as one); _MISSING if it is inherited."""
    return vars(owner).get(name, _MISSING)


def _remove(owner, name: str) -> None:
    _saved.append((owner, name, _own(owner, name)))
    delattr(owner, name)
