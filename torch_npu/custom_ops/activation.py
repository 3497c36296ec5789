"""Activations and gated linear units."""

import torch
from torch.nn.functional import gelu, mish, silu


def fast_gelu(self):
    """x * sigmoid(1.702 x)."""
    return self * torch.sigmoid(1.702 * self)


npu_fast_gelu = fast_gelu


def npu_fast_gelu_backward(grad, self):
    s = torch.sigmoid(1.702 * self)
    return grad * (s + 1.702 * self * s * (1 - s))


def npu_gelu(self, *, approximate="none"):
    return gelu(self, approximate=approximate)


def npu_gelu_backward(grad_output, self, *, approximate="none"):
    return torch.ops.aten.gelu_backward(grad_output, self, approximate=approximate)


def npu_gelu_mul(input, *, approximate="none"):
    left, right = input.chunk(2, -1)
    return gelu(left, approximate=approximate) * right


def npu_geglu(self, dim=-1, approximate=1, activate_left=False):
    """(linear * gelu(gate), gelu(gate)); the gate is the right half unless activate_left."""
    left, right = self.chunk(2, dim)
    linear, gate = (right, left) if activate_left else (left, right)
    activated = gelu(gate, approximate="tanh" if approximate else "none")
    return linear * activated, activated


def npu_mish(self):
    return mish(self)


def npu_mish_backward(grad, input):
    return torch.ops.aten.mish_backward(grad, input)


def npu_silu(self):
    return silu(self)


def npu_silu_(self):
    return silu(self, inplace=True)


def npu_swiglu(self, dim=-1):
    left, right = self.chunk(2, dim)
    return silu(left) * right


def npu_swiglu_backward(grad_output, self, dim=-1):
    left, right = self.chunk(2, dim)
    return torch.cat([torch.ops.aten.silu_backward(grad_output * right, left), grad_output * silu(left)], dim)


def npu_clipped_swiglu(x, *, group_index=None, dim=-1, alpha=1.702, limit=7.0, bias=1.0, interleaved=True):
    """The gated unit of gpt-oss: both halves clipped, the gate's sigmoid sharpened by alpha."""
    if group_index is not None:
        raise NotImplementedError("npu_clipped_swiglu does not support group_index")
    if interleaved:
        pairs = x.unflatten(dim, (-1, 2))
        position = dim % x.dim() + 1
        gate, linear = pairs.select(position, 0), pairs.select(position, 1)
    else:
        gate, linear = x.chunk(2, dim)
    gate, linear = gate.clamp(max=limit), linear.clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (linear + bias)


def npu_silu_backward(grad_output, x0, x1):
    """x0 is the input, x1 the result."""
    return torch.ops.aten.silu_backward(grad_output, x0)


def npu_geglu_grad(grad_output, self, gelu, dim=-1, approximate=1, activate_left=False):
    """The gradient of npu_geglu, whose second result is `gelu`."""
    left, right = self.chunk(2, dim)
    linear, gate = (right, left) if activate_left else (left, right)
    rule = "tanh" if approximate else "none"
    grads = grad_output * gelu, torch.ops.aten.gelu_backward(grad_output * linear, gate, approximate=rule)
    return torch.cat(grads[::-1] if activate_left else grads, dim)
