"""Static analysis: which torch APIs and operators sources use, and whether npu has them. Sources are read, never run."""

from torch_npu.migrate.analysis.native import NATIVE_SUFFIXES, analyse_native
from torch_npu.migrate.analysis.python import analyse_python

__all__ = ["NATIVE_SUFFIXES", "analyse_native", "analyse_python"]
