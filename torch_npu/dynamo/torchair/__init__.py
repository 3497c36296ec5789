"""torch_npu.dynamo.torchair (also `import torchair`): backends lead to torch_npu's own, which captures graphs.

CANN's graph engine (GE), which the official package compiles for, is not used: its names say so.
"""

from torch._vendor.packaging import version as packaging_version  # noqa: F401 (an official name)

from torch_npu._refusal import refuse
from torch_npu.dynamo.npugraph_ex.configs import CompilerConfig
from torch_npu.dynamo.npugraph_ex.npu_fx_compiler import get_compiler, get_npu_backend, logger
from torch_npu.dynamo.torchair._engine import REASON as _REASON

__all__ = ["CompilerConfig", "get_compiler", "get_npu_backend", "logger"]

dynamo_export = refuse("torchair.dynamo_export", _REASON + "; export with torch.export",
                       "*args, model, export_path='export_file', export_name='export', dynamic=False, config=None, **kwargs")
register_fx_node_ge_converter = refuse("torchair.register_fx_node_ge_converter", _REASON, "aten_op")
register_replacement = refuse("torchair.register_replacement", "the fusions of torch_npu's backend are its own; rewrite the model")
ge_converter = refuse("torchair.ge_converter", _REASON)
adjust_traceable_collective_remaps = refuse(
    "torchair.adjust_traceable_collective_remaps", "Dynamo knows torch.distributed's collectives as it is", "")
patch_for_hcom = refuse(
    "torchair.patch_for_hcom", "it is of CANN's graph engine; leave it out: Dynamo takes torch.distributed's collectives as it is", "")


def use_internal_format_weight(model):
    """Casts the weights of linear layers to FRACTAL_NZ, in place."""
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.weight.data = torch.ops.npu.npu_format_cast(module.weight.data, 29)
    return model


def npu_format_cast_via_cpu(tensor, acl_format):
    """torch_npu.npu_format_cast: no detour is needed."""
    import torch

    return torch.ops.npu.npu_format_cast(tensor, acl_format)


def __getattr__(name: str):
    from importlib import import_module

    if name in ("configs", "ge", "inference", "ops", "scope", "npu_fx_compiler", "core", "ge_concrete_graph"):
        return import_module(f"{__name__}.{name}")
    if name == "version":
        import torch_npu

        return torch_npu.__version__
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
