"""torchair.ge_concrete_graph.ge_converter.experimental: of CANN's graph engine; every name says that it is not here."""

from torch_npu._refusal import refusing_getattr
from torch_npu.dynamo.torchair._engine import REASON

__getattr__ = refusing_getattr("torchair.ge_concrete_graph.ge_converter.experimental", {}, REASON)
