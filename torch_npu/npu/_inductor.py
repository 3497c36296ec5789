"""torch.compile with its default backend, Inductor: there is no code generator for the npu, so each graph runs eagerly.

Inductor asks torch.npu for these classes. The wrapper is the first that it makes for a graph; refusing there with SkipFrame makes
Dynamo run the frame as it stands. Graphs without npu tensors are compiled as ever.
"""

import warnings
from functools import cache

from torch._dynamo.exc import SkipFrame
from torch._inductor.codegen.common import DeviceOpOverrides, register_device_op_overrides
from torch._inductor.codegen.wrapper import PythonWrapperCodegen as _UpstreamWrapper
from torch._inductor.scheduler import BaseScheduling

_REASON = (
    "torch.compile: Inductor has no code generator for the npu, so graphs with npu tensors run eagerly. "
    'backend="aot_eager" or "eager" says so explicitly.'
)


@cache
def _say_once() -> None:
    warnings.warn(_REASON, UserWarning, stacklevel=2)


class PythonWrapperCodegen(_UpstreamWrapper):
    @staticmethod
    def create(*args, **kwargs):
        _say_once()
        raise SkipFrame(_REASON)


CppWrapperCodegen = WrapperFxCodegen = PythonWrapperCodegen


class Scheduling(BaseScheduling):
    """Registered with the wrapper, never reached."""


register_device_op_overrides("npu", DeviceOpOverrides())
