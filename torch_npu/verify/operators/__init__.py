"""The operators of the kit, by name. Each table is a module with a list OPERATORS."""

from __future__ import annotations

from torch_npu.verify.operators import indexing, layout, matrix, neural, pointwise, reduction
from torch_npu.verify.samples import Operator

TABLES = (pointwise, reduction, matrix, layout, indexing, neural)


def by_name() -> dict[str, Operator]:
    return {operator.name: operator for table in TABLES for operator in table.OPERATORS}
