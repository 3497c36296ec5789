"""Extensions in C++ that use the npu: torch.utils.cpp_extension with this package's headers and library."""

from __future__ import annotations

import os

import setuptools
from torch.utils import cpp_extension

import torch_npu

__all__ = ["NpuExtension"]

PYTORCH_NPU_INSTALL_PATH = os.path.dirname(os.path.realpath(torch_npu.__file__))


def NpuExtension(name, sources, *args, **kwargs):
    """A setuptools.Extension like torch's CppExtension, with the headers of the CANN ABI (acl.h, aclnn.h, hccl.h) and libtorch_npu.so.

    The C++ interface of the official plugin (c10_npu::, at_npu::) is not there: use torch's (at::, c10::) and the ABI.
    """
    kwargs["include_dirs"] = [*kwargs.get("include_dirs", []), os.path.join(PYTORCH_NPU_INSTALL_PATH, "include")]
    kwargs["library_dirs"] = [*kwargs.get("library_dirs", []), os.path.join(PYTORCH_NPU_INSTALL_PATH, "lib")]
    kwargs["libraries"] = [*kwargs.get("libraries", []), "torch_npu"]
    extension = cpp_extension.CppExtension(name, sources, *args, **kwargs)
    assert isinstance(extension, setuptools.Extension)
    return extension
