"""Normalisations that are ATen's under another name."""

import torch
from torch.nn.functional import layer_norm


def npu_layer_norm_eval(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    return layer_norm(input, normalized_shape, weight, bias, eps)


def npu_layernorm_grad(grad_out, input, normalized_shape, mean, rstd, weight, bias):
    return torch.ops.aten.native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, [True] * 3)
