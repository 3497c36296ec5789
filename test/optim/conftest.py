"""Tests of this folder import its modules."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch_npu  # noqa: E402, F401
