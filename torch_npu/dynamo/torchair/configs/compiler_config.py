"""torchair.configs.compiler_config."""

from typing import Any as Any, Optional as Optional

from torch_npu._refusal import refuse_class
from torch_npu.dynamo.npugraph_ex.configs import CompilerConfig as CompilerConfig, _Options as NpuBaseConfig  # noqa: F401
from torch_npu.dynamo.npugraph_ex.npu_fx_compiler import logger as logger

_REASON = "options are plain attributes of CompilerConfig; set them there"
CallableValue = refuse_class("torchair.configs.compiler_config.CallableValue", _REASON)
DeprecatedValue = refuse_class("torchair.configs.compiler_config.DeprecatedValue", _REASON)
OptionValue = refuse_class("torchair.configs.compiler_config.OptionValue", _REASON)
