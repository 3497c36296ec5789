"""torch_npu.utils.profiler.Profile: a profile of some steps, as older programs for Ascend take it."""

from torch_npu._refusal import refuse_class

__all__ = ["Profile"]

Profile = refuse_class("torch_npu.utils.profiler.Profile", "it was replaced by torch_npu.profiler.profile, which takes the same options")
