"""torch.compile with its default backend, Inductor: there is no code generator for the npu, so each graph runs eagerly.

A backend may have a pass over its graphs. Ours, the last before lowering, refuses with SkipFrame, which makes Dynamo run the frame as
it stands. Graphs without npu tensors are compiled as ever. Registered once Inductor is imported (torch_npu/_register.py).
"""

import warnings
from functools import cache

from torch._dynamo.exc import SkipFrame
from torch._inductor.custom_graph_pass import CustomGraphModulePass

_REASON = (
    "torch.compile: Inductor has no code generator for the npu, so graphs with npu tensors run eagerly. "
    'backend="aot_eager" or "eager" says so explicitly.'
)


@cache
def _say_once() -> None:
    warnings.warn(_REASON, UserWarning, stacklevel=2)


class _Refusal(CustomGraphModulePass):
    def __call__(self, gm) -> None:
        _say_once()
        raise SkipFrame(_REASON)

    def uuid(self) -> str:
        return "npu graphs run eagerly"


class _NoCodegen:
    """Stands for the scheduler and the wrappers, none of which is made."""

    supports_caching = True  # otherwise Inductor takes the refusal for an error of its own


def register(common) -> None:
    """`common` is torch._inductor.codegen.common."""
    common.register_backend_for_device("npu", _NoCodegen, _NoCodegen, _NoCodegen, _NoCodegen, _Refusal())
    common.register_device_op_overrides("npu", common.DeviceOpOverrides())
