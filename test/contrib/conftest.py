"""Tests of this folder run on npu."""

import torch_npu  # noqa: F401
