"""torch.compile with its default backend, Inductor: graphs with npu tensors go to the backend of this package.

Inductor has a registration for the code generators of a device, and none for doing without: its entry is wrapped, which serves
torch.compile(backend="inductor") too, as upstream's default backend of a process would not. Graphs without npu tensors are compiled as
ever. Registered once Inductor is imported (torch_npu/_register.py).
"""

import functools

import torch
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch.utils._pytree import tree_leaves

_REASON = (
    "torch.compile: Inductor has no code generator for the npu; compile with torch.compile, which captures graphs, "
    "or torch.export and run the exported program"
)


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
    def compile_for_npu(model_, example_inputs_, *args, **kwargs):
        if not _has_npu(model_, example_inputs_) or not isinstance(model_, torch.fx.GraphModule):
            return upstream(model_, example_inputs_, *args, **kwargs)
        from torch_npu.dynamo import backend

        options = kwargs.get("config_patches") or {}
        # mode="max-autotune-no-cudagraphs" sets the one and not the other.
        captures = options.get("triton.cudagraphs", not options.get("max_autotune", False))
        return backend.compile_fused(model_, example_inputs_, captures=captures)

    compile_fx.compile_fx = compile_for_npu


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
