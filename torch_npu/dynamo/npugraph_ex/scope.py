"""Blocks of a model with attributes for CANN's graph compiler."""

from torch_npu._refusal import refuse

__all__ = ["limit_core_num", "super_kernel"]

super_kernel = refuse("super_kernel", "super kernels are machine code that only CANN builds; leave the scope out",
                      "scope: str, options: str = ''")
limit_core_num = refuse("limit_core_num", "graphs keep the cores of their stream; use torch.npu.set_stream_limit before the capture",
                        "op_aicore_num: int, op_vectorcore_num: int, stream=None")
