"""See torch_npu/utils/_silent_faults.py."""

from torch_npu._refusal import refuse, refuse_class
from torch_npu.utils._silent_faults import _REASON

SilentFaultData = refuse_class("torch_npu.asd.asd.SilentFaultData", _REASON)
SilentFaultDataV2 = refuse_class("torch_npu.asd.asd.SilentFaultDataV2", _REASON)
matmul_check = refuse("torch_npu.asd.asd.matmul_check", _REASON)
silent_check = refuse("torch_npu.asd.asd.silent_check", _REASON)
