"""torch_npu.jit.optimize: TorchScript graphs with the npu's own operators."""

from torch_npu.jit.register_fusion_pattern import optimize

__all__ = ["optimize"]
