"""The official names of a compiler that captures graphs: here they lead to torch_npu's own backend (docs/graphs.md)."""

from __future__ import annotations

from torch_npu._refusal import refuse
from torch_npu.dynamo.npugraph_ex.configs import CompilerConfig
from torch_npu.dynamo.npugraph_ex.npu_fx_compiler import compile_fx, get_compiler, get_npu_backend, logger

__all__ = ["CompilerConfig", "compile_fx", "get_compiler", "get_npu_backend", "logger", "register_replacement"]

register_replacement = refuse(
    "torch_npu.dynamo.npugraph_ex.register_replacement",
    "the fusions of torch_npu's backend are its own; rewrite the model, or write a backend that rewrites the graph and calls torch_npu's",
    "search_fn, replace_fn, example_inputs, trace_fn=None, extra_check=None, search_fn_pattern=None, scalar_workaround=None, "
    "skip_duplicates=False")


def __getattr__(name: str):
    if name in ("inference", "scope", "ops", "configs", "npu_fx_compiler"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
