"""Normalisations. Statistics are float32, results have the type of the input."""

import torch
from torch.nn.functional import layer_norm, silu


def _reciprocal_rms(x, gamma, epsilon):
    """Over the trailing dimensions that gamma has, which are kept with size one."""
    dims = list(range(-gamma.dim(), 0))
    return torch.rsqrt(x.float().square().mean(dims, keepdim=True) + epsilon)


def npu_rms_norm(self, gamma, epsilon=1e-6):
    rstd = _reciprocal_rms(self, gamma, epsilon)
    return (self.float() * rstd * gamma.float()).to(self.dtype), rstd


def npu_rms_norm_backward(dy, self, gamma, rstd):
    x, grad = self.float(), dy.float()
    dims = list(range(-gamma.dim(), 0))
    normal, weighted = x * rstd, grad * gamma.float()
    dx = rstd * (weighted - normal * (weighted * normal).mean(dims, keepdim=True))
    dgamma = (grad * normal).sum_to_size(gamma.shape)
    return dx.to(self.dtype), dgamma


def npu_gemma_rms_norm(self, gamma, epsilon=1e-6):
    """RMS norm whose weight is stored as the difference from one."""
    rstd = _reciprocal_rms(self, gamma, epsilon)
    return (self.float() * rstd * (1.0 + gamma.float())).to(self.dtype), rstd


def npu_add_rms_norm(x1, x2, gamma, epsilon=1e-6):
    """(norm, rstd, sum)."""
    x = x1 + x2
    y, rstd = npu_rms_norm(x, gamma, epsilon)
    return y, rstd, x


def npu_add_rms_norm_cast(x1, x2, gamma, epsilon=1e-6):
    """(norm as float32, norm, rstd, sum)."""
    x = x1 + x2
    rstd = _reciprocal_rms(x, gamma, epsilon)
    wide = x.float() * rstd * gamma.float()
    return wide, wide.to(x.dtype), rstd, x


def npu_add_layer_norm(x1, x2, gamma, beta, epsilon=1e-5, additional_output=False):
    """(norm, mean, rstd, sum); the sum is empty unless additional_output."""
    x = x1 + x2
    y, mean, rstd = torch.native_layer_norm(x.float(), gamma.shape, gamma.float(), beta.float(), epsilon)
    return y.to(x.dtype), mean, rstd, x if additional_output else x.new_empty(0)


def npu_layer_norm_eval(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    return layer_norm(input, normalized_shape, weight, bias, eps)


def npu_group_norm_silu(input, weight, bias, group, eps=1e-5):
    """(silu(group norm), mean, rstd)."""
    n, c = input.shape[:2]
    y, mean, rstd = torch.native_group_norm(input.contiguous(), weight, bias, n, c, input[0, 0].numel(), group, eps)
    return silu(y), mean, rstd


def npu_group_norm_swish(input, num_groups, weight, bias, eps=1e-5, swish_scale=1.0):
    """(y * sigmoid(swish_scale * y) of the group norm y, mean, rstd)."""
    n, c = input.shape[:2]
    y, mean, rstd = torch.native_group_norm(input.contiguous(), weight, bias, n, c, input[0, 0].numel(), num_groups, eps)
    return y * torch.sigmoid(swish_scale * y), mean, rstd


def npu_deep_norm(x, gx, beta, gamma, alpha=0.3, epsilon=1e-6):
    """(mean, rstd, layer norm of alpha * x + gx)."""
    wide = alpha * x.float() + gx.float()
    y, mean, rstd = torch.native_layer_norm(wide, gamma.shape, gamma.float(), beta.float(), epsilon)
    return mean, rstd, y.to(x.dtype)


def npu_layernorm_grad(grad_out, input, normalized_shape, mean, rstd, weight, bias):
    return torch.ops.aten.native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, [True] * 3)
