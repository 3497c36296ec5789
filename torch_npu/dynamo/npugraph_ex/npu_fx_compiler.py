"""Backends for torch.compile(backend=...): graphs that torch_npu fuses and captures."""

from __future__ import annotations

import logging
from collections.abc import Callable

from torch_npu.dynamo.npugraph_ex.configs import CompilerConfig

__all__ = ["compile_fx", "get_compiler", "get_npu_backend"]

logger = logging.getLogger("torch_npu.dynamo.npugraph_ex")


def _check(compiler_config: CompilerConfig | None) -> None:
    if compiler_config is not None:
        if not hasattr(compiler_config, "check"):
            raise TypeError(f"compiler_config must be a CompilerConfig, but got {type(compiler_config).__name__}")
        compiler_config.check()


def get_compiler(compiler_config: CompilerConfig | None = None) -> Callable:
    """What compiles a graph of ATen operators, for aot_autograd's fw_compiler: the graph is captured, and replayed by each call."""
    _check(compiler_config)

    def compiler(gm, example_inputs):
        from torch_npu.dynamo import capture

        return capture.captured(gm, example_inputs, set())

    return compiler


def get_npu_backend(*, compiler_config: CompilerConfig | None = None, custom_decompositions: dict | None = None) -> Callable:
    """A backend of torch.compile: torch_npu's "npu"."""
    _check(compiler_config)
    if custom_decompositions:
        raise NotImplementedError("custom_decompositions are not supported: torch_npu's backend keeps operators whole; leave them out")
    from torch_npu.dynamo.backend import npu

    return npu


def compile_fx(gm, example_inputs=None, options=None):
    """Compiles a graph that Dynamo has made, as torch.compile(backend="npu") does."""
    if options:
        raise NotImplementedError(f"options of CANN's graph compiler are not supported: {', '.join(map(str, options))}; leave them out")
    from torch_npu.dynamo.backend import npu

    return npu(gm, example_inputs)
