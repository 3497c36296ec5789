"""The CPU fallback is forbidden: what is tested here runs on the npu."""

import os

os.environ["TORCH_NPU_FALLBACK_CPU_DISABLE"] = "1"

import torch_npu  # noqa: F401
