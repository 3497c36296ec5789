"""Exact GELU to npu::fast_gelu, x * sigmoid(1.702 x)."""

import torch

import torch_npu  # noqa: F401 (defines the operator)

_EXACT = "graph(%input):\n  %kind : str = prim::Constant[value='none']()\n  %result = aten::gelu(%input, %kind)\n  return (%result)"
_FAST = "graph(%input):\n  %result = npu::fast_gelu(%input)\n  return (%result)"


def fast_gelu_pass(jit_mod):
    """Changes jit_mod.graph in place."""
    torch._C._jit_pass_inline(jit_mod.graph)
    torch._C._jit_pass_custom_pattern_based_rewrite_graph(_EXACT, _FAST, jit_mod.graph)
