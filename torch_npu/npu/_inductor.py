"""torch.compile with its default backend, Inductor: there is no code generator for the npu, so each graph runs eagerly.

Inductor has a registration for the code generators of a device, and none for doing without: its entry is wrapped. Graphs without
npu tensors are compiled as ever. Registered once Inductor is imported (torch_npu/_register.py).
"""

import functools
import warnings

import torch
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch.utils._pytree import tree_leaves

_REASON = (
    "torch.compile: Inductor has no code generator for the npu, so graphs with npu tensors run eagerly. "
    'backend="aot_eager" or "eager" says so explicitly.'
)


@functools.cache
def _say_once() -> None:
    warnings.warn(_REASON, UserWarning, stacklevel=2)


def _is_on_npu(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "npu"


def _has_npu(module, inputs) -> bool:
    """Whether a graph computes with npu tensors: its inputs, its parameters, or what it makes itself."""
    if any(map(_is_on_npu, tree_leaves(inputs))):
        return True
    if not isinstance(module, torch.fx.GraphModule):
        return False
    if any(map(_is_on_npu, (*module.parameters(), *module.buffers()))):
        return True
    values = (node.meta.get("example_value", node.meta.get("val")) for node in module.graph.nodes)
    return any(_is_on_npu(leaf) for value in values for leaf in tree_leaves(value))


def wrap_entry(compile_fx) -> None:
    """`compile_fx` is torch._inductor.compile_fx, whose function of that name makes a callable of a graph."""
    upstream = compile_fx.compile_fx

    @functools.wraps(upstream)
    def eagerly_on_npu(model_, example_inputs_, *args, **kwargs):
        if not _has_npu(model_, example_inputs_):
            return upstream(model_, example_inputs_, *args, **kwargs)
        if (kwargs.get("config_patches") or {}).get("triton.cudagraphs"):  # mode="reduce-overhead"
            from torch_npu.npu._npugraphs import npugraphs

            return npugraphs(model_, example_inputs_)
        _say_once()
        return model_

    compile_fx.compile_fx = eagerly_on_npu


class _Refusal(CustomGraphModulePass):
    """For ways into Inductor that do not pass the entry, such as AOTInductor: the reason instead of a missing generator."""

    def __call__(self, gm) -> None:
        raise NotImplementedError(_REASON)

    def uuid(self) -> str:
        return "npu graphs run eagerly"


class _NoCodegen:
    """Stands for the scheduler and the wrappers, none of which is made."""

    supports_caching = True


def register(common) -> None:
    """`common` is torch._inductor.codegen.common."""
    common.register_backend_for_device("npu", _NoCodegen, _NoCodegen, _NoCodegen, _NoCodegen, _Refusal())
    common.register_device_op_overrides("npu", common.DeviceOpOverrides())
