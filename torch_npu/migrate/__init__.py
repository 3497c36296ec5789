"""Moves sources from CUDA to npu: `python -m torch_npu.migrate convert|analyse|profile`. docs/migration.md explains it.

Static analysis and conversion read the sources and never run them.
"""

from torch_npu.migrate.profiling import OperatorProfile

__all__ = ["OperatorProfile"]
