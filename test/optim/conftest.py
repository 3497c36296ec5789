"""The CPU fallback is forbidden: what is tested here runs on the npu. Tests of this folder import its modules."""

import os
import sys
from pathlib import Path

os.environ["TORCH_NPU_FALLBACK_CPU_DISABLE"] = "1"
sys.path.insert(0, str(Path(__file__).parent))

import torch_npu  # noqa: E402, F401
