"""torch.npu.aclnn: the older name of the switch of convolutions, torch.npu.conv.allow_hf32."""

import sys
import types

from torch_npu.npu.aclnn import backends as backends
from torch_npu.npu.aclnn.backends import version

__all__ = ["allow_hf32", "version"]  # noqa: F822 (a property of the module's class)


class _Aclnn(types.ModuleType):
    @property
    def allow_hf32(self) -> bool:
        """torch.npu.conv.allow_hf32."""
        from torch_npu.npu.npu_config import conv

        return conv.allow_hf32

    @allow_hf32.setter
    def allow_hf32(self, value: bool) -> None:
        from torch_npu.npu.npu_config import conv

        conv.allow_hf32 = value


sys.modules[__name__].__class__ = _Aclnn
