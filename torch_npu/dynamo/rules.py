"""How Dynamo traces calls of torch.npu: as it traces those of torch.cuda, for which it has tables of its own.

What is neither folded nor handled here ends the graph and is called as it stands: a graph would drop a call that returns
nothing, such as torch.npu.empty_cache(). Called once torch._dynamo is imported (torch_npu/_register.py).
"""

import torch
from torch._dynamo import trace_rules, utils
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import AttrSource, CallFunctionNoArgsSource, ImportSource
from torch._dynamo.variables import ConstantVariable, TorchInGraphFunctionVariable, torch as functions
from torch._dynamo.variables.ctx_manager import GenericDeviceVariable, _device_context_manager_map
from torch._dynamo.variables.streams import StreamVariable, _stream_fn_to_variable_cls
from torch._dynamo.variables.user_defined import UserDefinedClassVariable

import torch_npu.npu
from torch_npu import _C
from torch_npu.npu import devices, streams

# What does not change while a program runs, and what a guard watches.
FOLDED = ("can_device_access_peer", "device_count", "get_device_capability", "get_device_name", "get_device_properties",
          "get_soc_version", "is_available", "is_bf16_supported")  # fmt: skip
FOLDED_WITH_GUARD = ("current_device", "is_initialized")
HANDLED = ("current_stream", "stream", "synchronize")
IN_GRAPH = (*FOLDED, *FOLDED_WITH_GUARD, *HANDLED, "default_stream")  # the last ends the graph, without a warning about C++


class DeviceVariable(GenericDeviceVariable):
    """`with torch.npu.device(1):`"""

    _exchange_fn = staticmethod(_C.exchange_device)
    _maybe_exchange_fn = staticmethod(_C.maybe_exchange_device)
    _get_device_index_fn = staticmethod(lambda device, optional: devices.device(device).idx)

    def module_name(self) -> str:
        return "torch.npu"

    def python_type(self) -> type:
        return devices.device


class NpuStreamVariable(StreamVariable):
    _cpython_type = streams.Stream
    _device_handle_attr = "npu_stream"


def handlers() -> dict:
    """Dynamo's table: function -> what to do for a call of it."""
    return TorchInGraphFunctionVariable._get_handlers()


def synchronize(self, tx, *args, **kwargs):
    """Upstream's handler waits for card 0 where none is named; this one for the current card."""
    device = [value.as_python_constant() for value in (*args, *kwargs.values())]
    index = devices.device(device[0] if device else None).idx
    if index < 0:
        source = CallFunctionNoArgsSource(AttrSource(AttrSource(ImportSource("torch"), "npu"), "current_device"))
        install_guard(source.make_guard(GuardBuilder.EQUALS_MATCH))
        index = devices.current_device()
    tx.output.create_proxy("call_function", torch.ops.streams.synchronize_device, ("npu", index), {})
    return ConstantVariable.create(None)


def register() -> None:
    trace_rules.add("torch_npu.npu")  # do not trace into these files, which soon reach C++
    for module in (torch_npu.npu.amp.autocast_mode, torch_npu.npu.autocast_utils):  # but autocast is plain torch
        trace_rules.BUILTIN_INLINE_WHEN_CALLED.add(str(module.__file__))
    for name in IN_GRAPH:
        trace_rules.manual_torch_name_rule_map[f"torch_npu.npu.{name}"] = TorchInGraphFunctionVariable
    trace_rules.get_torch_obj_rule_map.cache_clear()
    for name in (*FOLDED, *FOLDED_WITH_GUARD):
        functions.constant_fold_functions[getattr(torch_npu.npu, name)] = None
    for name in FOLDED_WITH_GUARD:
        functions.constant_fold_functions_need_guards[getattr(torch_npu.npu, name)] = None  # type: ignore[call-overload]
    handlers()[streams.current_stream] = handlers()[torch.accelerator.current_stream]
    handlers()[devices.synchronize] = synchronize
    _stream_fn_to_variable_cls[streams.current_stream] = NpuStreamVariable
    UserDefinedClassVariable._in_graph_classes().update((streams.Stream, streams.Event))
    utils.common_constant_types.add(_C._NPUDeviceProperties)
    # register_device_context_manager() refuses the second entry that transfer_to_npu makes: torch.cuda.device is the npu's then.
    _device_context_manager_map[devices.device] = DeviceVariable
