"""Gradients as operators of their own, for code that calls them by name. The operators they belong to are compositions, and need none."""

import math

import torch

from torch_npu.custom_ops import refuse

aten = torch.ops.aten


def _convolution(grad, input, weight, stride, padding, dilation, groups, mask, output_padding=None):
    """(input, weight, bias); output_padding makes it a transposed one."""
    if len(devices := {str(t.device) for t in (grad, input, weight)}) > 1:
        raise RuntimeError(f"Expected all tensors to be on the same device, but the gradient, input and weight are on {sorted(devices)}")
    transposed = output_padding is not None
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    return aten.convolution_backward(grad, input, weight, [channels], stride, padding, dilation, transposed,
                                     output_padding if transposed else [0] * (weight.dim() - 2), groups, mask)


def npu_convolution_backward(input, grad_output, weight, stride, padding, dilation, groups, output_mask):
    return _convolution(grad_output, input, weight, stride, padding, dilation, groups, output_mask)


npu_conv2d_backward = npu_conv3d_backward = npu_convolution_backward


def npu_convolution_transpose_backward(input, grad, weight, padding, output_padding, stride, dilation, groups, grad_input_mask):
    return _convolution(grad, input, weight, stride, padding, dilation, groups, grad_input_mask, output_padding)


npu_conv_transpose2d_backward = npu_conv_transpose3d_backward = npu_convolution_transpose_backward


def _conv_depthwise2d_backward(grad_output, input, weight, kernel_size, stride, padding, dilation, output_mask):
    if list(weight.shape[2:]) != list(kernel_size):
        raise ValueError(f"_conv_depthwise2d_backward: kernel_size is {list(kernel_size)}, expected the last two sizes of weight, "
                         f"{list(weight.shape)}")
    return _convolution(grad_output, input, weight, stride, padding, dilation, input.shape[1], [*output_mask, False])[:2]


def npu_max_backward(grad, dim, indices, sizes, keepdim):
    """Zeros but for the places of the extremes."""
    if not keepdim and len(sizes) > 0:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return grad.new_zeros(sizes).scatter(dim, indices.long(), grad)


npu_min_backward = npu_max_backward


def npu_gather_backward(grad, self_size, dim, index, sparse_grad):
    refuse("npu_gather_backward", sparse_grad=sparse_grad)
    return grad.new_zeros(self_size).scatter_add(dim, index, grad)


def npu_renorm_backward(grad, input, p, dim, maxnorm):
    """Slices along dim whose p-norm is above maxnorm were scaled down to it."""
    others = [i for i in range(input.dim()) if i != dim % input.dim()]
    norm = torch.linalg.vector_norm(input, p, others, keepdim=True)
    inverse = (norm + 1e-7).reciprocal()
    if p == math.inf:
        largest = input.abs() == norm
        slope = input.sign() * largest / largest.sum(others, keepdim=True)
    else:
        slope = input.sign() * input.abs().pow(p - 1) / norm.clamp(min=torch.finfo(norm.dtype).tiny).pow(p - 1)
    along = (grad * input).sum(others, keepdim=True)
    return torch.where(norm > maxnorm, maxnorm * inverse * (grad - inverse * along * slope), grad)


def matmul_double_backward(grad_self, grad_other, grad_out, input, other, mask):
    """The gradients (grad_out, input, other) of the two gradients of a product; `mask` says which are wanted."""
    def rows(t, like):
        return t.unsqueeze(0) if like.dim() == 1 else t

    def columns(t, like):
        return t.unsqueeze(-1) if like.dim() == 1 else t

    a, b = rows(input, input), columns(other, other)
    g = columns(grad_out, other)
    g = g.unsqueeze(-2) if input.dim() == 1 else g
    da = None if grad_self is None else rows(grad_self, input)
    db = None if grad_other is None else columns(grad_other, other)
    terms = [t for t in (None if da is None else da @ b, None if db is None else a @ db) if t is not None]
    d_out = sum(terms[1:], terms[0]).reshape(grad_out.shape) if terms and mask[0] else None
    d_input = None if db is None or not mask[1] else (g @ db.mT).sum_to_size(a.shape).reshape(input.shape)
    d_other = None if da is None or not mask[2] else (da.mT @ g).sum_to_size(b.shape).reshape(other.shape)
    return d_out, d_input, d_other


def fft_r2c_backward(grad, dim, normalization, onesided, last_dim_size):
    if onesided:
        last = dim[-1] % grad.dim()
        missing = last_dim_size - grad.shape[last]
        grad = torch.cat([grad, grad.new_zeros(*grad.shape[:last], missing, *grad.shape[last + 1 :])], last)
    return torch.real(aten._fft_c2c(grad, dim, normalization, False)).contiguous()


def fft_c2r_backward(grad, dim, normalization):
    """Numbers that stand for themselves and their conjugates count twice."""
    result = aten._fft_r2c(grad, dim, normalization, True)
    twice = grad.shape[dim[-1]] - result.shape[dim[-1]]
    factor = torch.ones(result.shape[dim[-1]], device=grad.device, dtype=grad.dtype)
    factor[1 : 1 + twice] = 2
    return result * factor.reshape([-1 if i == dim[-1] % grad.dim() else 1 for i in range(grad.dim())])


def stft_backward(grad_output, input, n_fft, hop_length=None, win_length=None, window=None, normalized=False, onesided=None,
                  return_complex=None):
    """Of a transform without padding at the ends: gradients of frames, added where frames overlap."""
    hop, length = hop_length or n_fft // 4, win_length or n_fft
    complex_input = input.is_complex() or (window is not None and window.is_complex())
    grad = grad_output if return_complex or grad_output.is_complex() else torch.view_as_complex(grad_output.contiguous())
    grad = (grad if input.dim() == 2 else grad.unsqueeze(0)).transpose(1, 2)
    onesided = not complex_input if onesided is None else onesided
    if complex_input:
        frames = aten._fft_c2c(grad, [2], int(normalized), False)
    else:
        frames = fft_r2c_backward(grad, [2], int(normalized), onesided, n_fft)
    if window is not None or length < n_fft:
        left = (n_fft - length) // 2
        whole = torch.zeros(n_fft, dtype=frames.dtype if window is None else window.dtype, device=frames.device)
        whole[left : left + length] = 1 if window is None else window.conj()
        frames = frames * whole
    result = frames.new_zeros(frames.shape[0], input.shape[-1])
    places = torch.arange(frames.shape[1], device=frames.device).unsqueeze(1) * hop + torch.arange(n_fft, device=frames.device)
    result = result.index_add(1, places.flatten(), frames.flatten(1))
    return result.reshape(input.shape).to(input.dtype)


def repeat_interleave_backward_int(grad, input, repeats, dim=None):
    """Sums over the copies of each element."""
    if repeats == 0:
        return torch.zeros_like(input, dtype=grad.dtype)
    dim = (-1 if dim is None else dim) % grad.dim()
    return grad.unflatten(dim, (-1, repeats)).sum(dim + 1).reshape(input.shape)
