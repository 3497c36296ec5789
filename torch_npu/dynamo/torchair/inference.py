"""torchair.inference: compiled graphs on disk, and sizes that are known beforehand."""

from collections.abc import Callable as Callable
from typing import Dict as Dict, List as List, Optional as Optional  # noqa: UP035 (official names)

from torch_npu._refusal import refuse
from torch_npu.dynamo.npugraph_ex.configs import CompilerConfig as CompilerConfig
from torch_npu.dynamo.npugraph_ex.inference import cache_compile as cache_compile, readable_cache as readable_cache

set_dim_gears = refuse("torchair.inference.set_dim_gears", "graphs are captured for each size that a program calls them with; compile with "
                       "dynamic=False, or mark sizes with torch._dynamo.mark_dynamic", "t, dim_gears")
