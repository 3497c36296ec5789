"""Limits of time on the card."""

from torch_npu.npu.core_limits import set_op_timeout_ms as set_op_timeout_ms
