"""torchair.npu_fx_compiler."""

from torch_npu.dynamo.npugraph_ex.npu_fx_compiler import get_compiler as get_compiler, get_npu_backend as get_npu_backend, logger as logger
