"""New host arguments for operators in a graph (NPUGraph.update): lengths of sequences that differ from replay to replay.

Each operator with a handler is captured as a task group behind an event of its own. A replay waits there until update() has
given the group its new arguments and recorded the event.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torch_npu import _C
from torch_npu.npu.streams import ExternalEvent, Stream, StreamContext, current_stream


@dataclass
class DispatchRecord:
    """A captured call: what it was given, where its results are, and how it is exchanged."""

    op: Any
    args: tuple
    kwargs: dict[str, Any]
    outputs: Any
    handler: type[NpuGraphOpHandler]
    group: int
    event: ExternalEvent


class NpuGraphOpHandler:
    """How operators are captured and updated; subclass and register it for others than those of this module."""

    # Operator -> the arguments that update() may change.
    UPDATE_SPECS: dict[str, list[str]] = {}

    @classmethod
    def prepare_capture(cls, func, args, kwargs):
        """The call that is captured in place of the user's."""
        return func, args, kwargs

    @classmethod
    def postprocess_result(cls, result, kwargs):
        """What the user gets of the captured call's result."""
        return result

    @classmethod
    def get_update_specs(cls, op_name: str) -> list[str]:
        return cls.UPDATE_SPECS.get(op_name, [])

    @classmethod
    def update_args(cls, dispatch_record: DispatchRecord, update_input: dict[str, Any]) -> None:
        """Puts new values into the record's arguments."""
        name = dispatch_record.op._schema.name.partition("::")[2]
        known = cls.get_update_specs(name)
        arguments = [argument.name for argument in dispatch_record.op._schema.arguments]
        for key, value in update_input.items():
            if key not in known:
                raise ValueError(f"cpu_update_input has '{key}', but of {name} these can be updated: {', '.join(known)}")
            position = arguments.index(key)
            if position < len(dispatch_record.args):
                args = list(dispatch_record.args)
                args[position] = value
                dispatch_record.args = tuple(args)
            else:
                dispatch_record.kwargs[key] = value

    @classmethod
    def record_wrap_kwarg(cls, key, value, tensor_param_names):
        """How an argument is kept for updates."""
        return value


_handlers: dict[str, type[NpuGraphOpHandler]] = {}


def register_npu_graph_handler(op_names):
    """Class decorator: the handler of these operators (a name or a list of names)."""
    names = [op_names] if isinstance(op_names, str) else list(op_names)

    def register(handler: type[NpuGraphOpHandler]) -> type[NpuGraphOpHandler]:
        if not (isinstance(handler, type) and issubclass(handler, NpuGraphOpHandler)):
            raise TypeError(f"a handler must be a subclass of NpuGraphOpHandler, but got {handler}")
        _handlers.update(dict.fromkeys(names, handler))
        return handler

    return register


_LENGTHS = ["actual_seq_lengths", "actual_seq_lengths_kv"]


@register_npu_graph_handler(["npu_fused_infer_attention_score", "npu_fused_infer_attention_score_v2"])
class FusedInferAttentionHandler(NpuGraphOpHandler):
    UPDATE_SPECS = {
        "npu_fused_infer_attention_score": _LENGTHS,
        "npu_fused_infer_attention_score_v2": ["actual_seq_qlen", "actual_seq_kvlen"],
    }


class DispatchCapture(TorchDispatchMode):
    """While a graph is captured: keeps a record of each call whose operator has a handler."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[DispatchRecord] = []
        self.update_stream = Stream()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        handler = _handlers.get(func._schema.name.partition("::")[2])
        if handler is None:
            return func(*args, **kwargs)
        func, args, kwargs = handler.prepare_capture(func, args, kwargs)
        stream, event = current_stream(), ExternalEvent()
        event.wait(stream)
        event.reset(stream)
        _C.graph_task_group_begin(stream)
        result = func(*args, **kwargs)
        group = _C.graph_task_group_end(stream)
        kept = {key: handler.record_wrap_kwarg(key, value, []) for key, value in kwargs.items()}
        self.records.append(DispatchRecord(func, args, kept, result, handler, group, event))
        return handler.postprocess_result(result, kwargs)

    def update(self, cpu_update_input: list[dict]) -> None:
        if not isinstance(cpu_update_input, (list, tuple)) or not all(isinstance(each, dict) for each in cpu_update_input):
            raise TypeError(f"cpu_update_input must be a list of dicts of arguments, but got {cpu_update_input!r}")
        if len(cpu_update_input) not in (1, len(self.records)):
            raise ValueError(f"cpu_update_input must have 1 or {len(self.records)} entries, one for each captured operator, "
                             f"but has {len(cpu_update_input)}")
        inputs = cpu_update_input * len(self.records) if len(cpu_update_input) == 1 else cpu_update_input
        with StreamContext(self.update_stream), torch.no_grad():
            for record, given in zip(self.records, inputs, strict=True):
                record.handler.update_args(record, given)
                _C.graph_task_update_begin(self.update_stream, record.group)
                try:
                    _run_into(record)
                except BaseException:
                    with contextlib.suppress(RuntimeError):  # that tasks are missing; why is raised
                        _C.graph_task_update_end(self.update_stream)
                    raise
                _C.graph_task_update_end(self.update_stream)
                record.event.record(self.update_stream)


def _run_into(record: DispatchRecord) -> None:
    """Calls the operator once more, with the results where the graph has them."""
    kwargs = record.kwargs if "out" in record.kwargs else record.kwargs | {"out": pytree.tree_leaves(record.outputs)}
    record.op.overloadpacket.out(*record.args, **kwargs)
