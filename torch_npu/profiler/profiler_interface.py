"""Where the official plugin keeps supported_activities."""

from torch_npu.profiler import supported_activities

__all__ = ["supported_activities"]
