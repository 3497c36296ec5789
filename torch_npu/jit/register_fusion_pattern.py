"""The passes that torch_npu.jit.optimize runs."""

from torch_npu.jit.fusion_pass.fast_gelu import fast_gelu_pass

__all__ = ["optimize"]


def optimize(jit_mod):
    """Changes the graph of a scripted or traced module in place: exact GELU becomes fast_gelu, an approximation."""
    fast_gelu_pass(jit_mod)
