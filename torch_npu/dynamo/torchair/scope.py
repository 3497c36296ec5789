"""torchair.scope: attributes of blocks of a model for CANN's graph compiler."""

from torch_npu._refusal import refuse
from torch_npu.dynamo.npugraph_ex.scope import limit_core_num as limit_core_num, super_kernel as super_kernel

_OUT = "it is read by CANN's graph compiler alone; leave the scope out"
data_dump = refuse("torchair.scope.data_dump", _OUT)
deterministic = refuse("torchair.scope.deterministic", "use torch.use_deterministic_algorithms(True)")
npu_stream_switch = refuse("torchair.scope.npu_stream_switch", "use `with torch.npu.stream(...)`, which graphs capture",
                           "stream_tag: str, stream_priority: int = 0")
npu_wait_tensor = refuse("torchair.scope.npu_wait_tensor", "use torch.npu.Stream.wait_stream, which graphs capture", "self, dependency")
op_never_timeout = refuse("torchair.scope.op_never_timeout", "use torch.npu.set_op_timeout_ms")
