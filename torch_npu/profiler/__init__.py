"""torch_npu.profiler: records what host and card do, and writes it in the files that MindStudio's tools read. See docs/profiler.md."""

from torch_npu.profiler import analysis, dynamic_profile
from torch_npu.profiler.experimental_config import (
    AiCMetrics,
    ExportType,
    HostSystem,
    ProfilerLevel,
    _ExperimentalConfig,
    supported_ai_core_metrics,
    supported_export_type,
    supported_profiler_level,
)
from torch_npu.profiler.profiler import ProfilerActivity, profile, supported_activities, tensorboard_trace_handler
from torch_npu.profiler.scheduler import (
    ProfilerAction,
    Schedule as schedule,  # noqa: N813
)

__all__ = [
    "AiCMetrics", "ExportType", "HostSystem", "ProfilerAction", "ProfilerActivity", "ProfilerLevel", "_ExperimentalConfig", "analysis",
    "dynamic_profile", "profile", "schedule", "supported_activities", "supported_ai_core_metrics", "supported_export_type",
    "supported_profiler_level", "tensorboard_trace_handler",
]
