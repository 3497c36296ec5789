"""Dynamo knows torch's functions by identity, in tables. A function that stands in for one gets the same entries, and a function
of torch.cuda those of its counterpart in torch.npu. What was compiled while cuda meant something else is thrown away.
"""

import inspect
import sys
from typing import Any

import torch

import torch_npu.npu
from torch_npu._after_import import after_import
from torch_npu.contrib._transfer import arguments

_MISSING = object()
_pairs: list[tuple[str, object, object]] = []  # name, what stood there, what stands there now
_changes: list[tuple[dict, object, object]] = []  # table, key, what stood there


def redirect(name: str, old: object, new: object) -> None:
    """Remembers one redirection. Classes are left alone, for Dynamo asks them; all but autocast, which it knows by identity."""
    if callable(old) and callable(new) and (not isinstance(new, type) or issubclass(new, torch.amp.autocast)):
        _pairs.append((name, old, new))


def apply() -> None:
    """Called when the redirections have been set."""
    after_import("torch._dynamo", lambda module: _fill() if arguments.enabled else None)


def undo() -> None:
    _empty()
    _pairs.clear()


def _empty() -> None:
    while _changes:
        table, key, old = _changes.pop()
        table.pop(key, None) if old is _MISSING else table.__setitem__(key, old)
    if (dynamo := sys.modules.get("torch._dynamo")) is not None:
        dynamo.reset()
        dynamo.trace_rules.clear_lru_cache()


def _set(table: dict, key: object, value: object) -> None:
    _changes.append((table, key, table.get(key, _MISSING)))
    table[key] = value


def _remove(table: dict, key: object) -> None:
    if key in table:
        _changes.append((table, key, table.pop(key)))


def _fill() -> None:
    from torch._dynamo import trace_rules
    from torch._dynamo.variables import SkipFunctionVariable, TorchInGraphFunctionVariable, streams, torch as functions

    from torch_npu.dynamo import rules as npu_rules

    _empty()
    handlers = npu_rules.handlers()
    rules: Any = trace_rules.torch_name_rule_map
    tables: tuple[Any, ...] = (functions.constant_fold_functions, functions.constant_fold_functions_need_guards, handlers,
              streams._stream_fn_to_variable_cls, functions.supported_ctx_manager_classes)  # fmt: skip
    for name, old, new in _pairs:
        for table in tables:
            if new in table:  # Dynamo was imported after the redirection, and took the new for the old: for good
                table.setdefault(old, table.pop(new))
            if old in table:
                _set(table, new, table[old])
        short = name.rpartition(".")[2]
        if name.startswith("torch.Tensor.") and inspect.ismethoddescriptor(old):  # the wrapper calls what is no method now
            _set(trace_rules.manual_torch_name_rule_map, f"torch._C.TensorBase#{short}", TorchInGraphFunctionVariable)
        if not name.startswith("torch.cuda.") or isinstance(new, type):
            continue
        counterpart = getattr(torch_npu.npu, short, _MISSING)
        for table in tables:
            _remove(table, new)
            if counterpart in table:
                _set(table, new, table[counterpart])
        rule = TorchInGraphFunctionVariable if short in npu_rules.IN_GRAPH else SkipFunctionVariable
        named: Any = next((table for table in rules if name in table), trace_rules.manual_torch_name_rule_map)
        _set(named, name, rule)
    _remove(tables[0], torch.cuda.is_available)  # its answer depends on who asks
    _set(handlers, torch.cuda.is_available, _is_available)
    trace_rules.clear_lru_cache()
    after_import("torch._dynamo.backends.cudagraphs", _capture_on_npu)


def _capture_on_npu(module: object) -> None:
    """backend="cudagraphs", which registers itself when it is imported, is the one that captures on npu."""
    if arguments.enabled:
        from torch._dynamo.backends import registry

        from torch_npu.dynamo.backend import npugraphs

        npugraphs._tags = ()  # type: ignore[attr-defined]  # as register_backend does
        _set(registry._COMPILER_FNS, "cudagraphs", npugraphs)


def _is_available(self, tx, *args, **kwargs):
    from torch._dynamo.variables import ConstantVariable

    from torch_npu.contrib._transfer.replacements import is_available_for

    return ConstantVariable.create(is_available_for(tx.f_globals.get("__name__", "")))
