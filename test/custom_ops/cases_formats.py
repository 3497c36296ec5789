"""Casts of format: values are the same in every one. What lies in memory is tested in test_formats.py."""

import torch
from cases import Case, rand

X, IMAGE = rand(4, 6, 8), rand(2, 5, 6, 7)


def same(x, *_, **__):
    return x


# Tested in test_memory_ops.py: it has no result of its own.
ELSEWHERE = {"npu_change_data_ptr"}
CASES = [
    Case("_npu_format_cast", (X, 29), same, grad=(0,)),
    Case("_npu_format_cast", (rand(33, 17), 29), same, grad=(0,), label="matrix"),
    Case("_npu_format_cast", (IMAGE, 3), same, grad=(0,), label="image"),
    Case("_npu_format_cast", (X, 2), same, grad=(0,), label="ND"),
    Case("_npu_format_cast.aclnn", (X, 29, 6), same, grad=(0,)),
    Case("_npu_format_cast.input_dtype", (torch.arange(-60, 60).view(10, 12).to(torch.int8), 29, 1, 1), same),
    Case("npu_format_cast", (X, 29), same, grad=(0,)),
    Case("npu_format_cast", (IMAGE, 3), same, grad=(0,), label="image"),
    Case("npu_format_cast", (X, 2), same, grad=(0,), label="ND"),
    Case("npu_format_cast", (rand(5), 29), same, grad=(0,), label="vector"),
    Case("npu_format_cast.Tensor", (X, X), same, grad=(0,)),
    Case("npu_format_cast_", (X, X + 1), lambda x, y: y),
    Case("npu_format_cast_.acl_format", (X, 29), same),
    Case("npu_format_cast_.acl_format", (X, 2), same, label="ND"),
    Case("get_npu_format", (IMAGE,), lambda x: 0),
    Case("get_npu_format", (X,), lambda x: 2, label="3d"),
    Case("get_storage_size", (X,), lambda x: x.numel()),
]
