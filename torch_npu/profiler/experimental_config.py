"""What is recorded beyond torch.profiler's arguments, and how it is written. Names and values are the official ones."""

from typing import Any

from torch_npu.profiler._folder import warn

__all__ = [
    "AiCMetrics", "ExportType", "HostSystem", "ProfilerLevel", "_ExperimentalConfig", "supported_ai_core_metrics", "supported_export_type",
    "supported_profiler_level",
]


class ProfilerLevel:
    """Level_none: operators alone. Level0: launches too. Level1, Level2: calls of the runtime and collectives in detail as well."""

    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"
    Level_none = "Level_none"


class AiCMetrics:
    """Groups of an AI core's counters."""

    PipeUtilization = "ACL_AICORE_PIPE_UTILIZATION"
    ArithmeticUtilization = "ACL_AICORE_ARITHMETIC_UTILIZATION"
    Memory = "ACL_AICORE_MEMORY_BANDWIDTH"
    MemoryL0 = "ACL_AICORE_L0B_AND_WIDTH"
    MemoryUB = "ACL_AICORE_MEMORY_UB"
    ResourceConflictRatio = "ACL_AICORE_RESOURCE_CONFLICT_RATIO"
    L2Cache = "ACL_AICORE_L2_CACHE"
    MemoryAccess = "ACL_AICORE_MEMORY_ACCESS"
    AiCoreNone = "ACL_AICORE_NONE"


class ExportType:
    """CSV and JSON files, or SQLite databases."""

    Db = "db"
    Text = "text"


class HostSystem:
    """What could be sampled of the host."""

    CPU = "cpu"
    MEM = "mem"
    DISK = "disk"
    NETWORK = "network"
    OSRT = "osrt"
    NUMA = "numa"


def _values(of: type) -> set[str]:
    return {value for name, value in vars(of).items() if not name.startswith("__")}


def supported_profiler_level() -> set[str]:
    """The levels that can be asked for."""
    return _values(ProfilerLevel)


def supported_ai_core_metrics() -> set[str]:
    """The groups that can be asked for; their columns say N/A, as nothing here reads an AI core's counters."""
    return _values(AiCMetrics)


def supported_export_type() -> set[str]:
    """The forms that a profile can be written in."""
    return _values(ExportType)


class _ExperimentalConfig:
    """Settings of a profile. A value that cannot be is replaced by the default, with a warning."""

    def __init__(self, profiler_level: Any = ProfilerLevel.Level0, aic_metrics: Any = AiCMetrics.PipeUtilization, l2_cache: bool = False,
                 msprof_tx: bool = False, mstx: bool = False, data_simplification: bool = True, record_op_args: bool = False,
                 op_attr: bool = False, gc_detect_threshold: float | None = None, export_type: str | list = ExportType.Text,
                 host_sys: list | None = None, mstx_domain_include: list | None = None, mstx_domain_exclude: list | None = None,
                 sys_io: bool = False, sys_interconnection: bool = False):
        self._profiler_level = _one_of("profiler_level", profiler_level, supported_profiler_level(), ProfilerLevel.Level0)
        self._aic_metrics = _one_of("aic_metrics", aic_metrics, supported_ai_core_metrics(), AiCMetrics.AiCoreNone)
        self._mstx = _flag("mstx", mstx) or _flag("msprof_tx", msprof_tx)
        self._data_simplification = _flag("data_simplification", data_simplification, default=True)
        self._export_type = _export_types(export_type)
        self._mstx_domain_include = _names("mstx_domain_include", mstx_domain_include)
        self._mstx_domain_exclude = _names("mstx_domain_exclude", mstx_domain_exclude)
        self._gc_detect_threshold = _milliseconds(gc_detect_threshold)
        if self._mstx_domain_include and self._mstx_domain_exclude:
            warn("mstx_domain_include and mstx_domain_exclude cannot be combined; mstx_domain_exclude is ignored.")
            self._mstx_domain_exclude = []
        asked = {"l2_cache": l2_cache, "record_op_args": record_op_args, "op_attr": op_attr, "host_sys": host_sys, "sys_io": sys_io,
                 "sys_interconnection": sys_interconnection}
        if unread := [name for name, value in asked.items() if value]:
            warn(f"{', '.join(unread)} would need counters that this profiler does not read; ignored.")

    @property
    def profiler_level(self) -> str:
        return self._profiler_level

    @property
    def export_type(self) -> list[str]:
        return self._export_type

    @property
    def with_gc(self) -> bool:
        return self._gc_detect_threshold is not None

    @property
    def gc_detect_threshold(self) -> float | None:
        return self._gc_detect_threshold

    @property
    def tx_enabled(self) -> bool:
        return self._mstx

    def takes_domain(self, domain: str) -> bool:
        """Whether marks and ranges of this mstx domain are recorded."""
        if self._mstx_domain_include:
            return domain in self._mstx_domain_include
        return domain not in self._mstx_domain_exclude


def _one_of(name: str, value, allowed: set[str], default: str) -> str:
    if isinstance(value, str) and value in allowed:
        return value
    warn(f"{name} must be one of {', '.join(sorted(allowed))}, but got {value!r}; {default} is used.")
    return default


def _flag(name: str, value, default: bool = False) -> bool:
    if isinstance(value, bool):
        return value
    warn(f"{name} must be True or False, but got {value!r}; {default} is used.")
    return default


def _names(name: str, value) -> list[str]:
    if value is None:
        return []
    if isinstance(value, (list, tuple)) and all(isinstance(entry, str) for entry in value):
        return list(value)
    warn(f"{name} must be a list of texts, but got {value!r}; ignored.")
    return []


def _export_types(value) -> list[str]:
    if value is None:
        return [ExportType.Text]
    asked = [value] if isinstance(value, str) else list(value) if isinstance(value, (list, tuple, set)) else [value]
    if asked and all(isinstance(entry, str) and entry in supported_export_type() for entry in asked):
        return list(dict.fromkeys(asked))
    warn(f"export_type must be 'text', 'db' or a list of them, but got {value!r}; text is used.")
    return [ExportType.Text]


def _milliseconds(value) -> float | None:
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0):
        return None if value is None else float(value)
    warn(f"gc_detect_threshold must be milliseconds, but got {value!r}; garbage collection is not recorded.")
    return None
