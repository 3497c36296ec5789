"""torch.npu.npugraph_ex: torch_npu.dynamo.npugraph_ex under its shorter name."""

from torch_npu._refusal import alias_modules as _alias
from torch_npu.dynamo.npugraph_ex import (
    compile_fx as compile_fx,
    inference as inference,
    register_replacement as register_replacement,
    scope as scope,
)

__all__ = ["compile_fx", "register_replacement"]

_alias(__name__, {"inference": inference, "scope": scope})
