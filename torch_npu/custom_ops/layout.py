"""Plain torch under the names of older code: views and copies, products, convolutions, reductions."""

import torch
from torch.nn.functional import conv2d, conv3d, conv_transpose2d, conv_transpose3d, linear, pad

from torch_npu import _C
from torch_npu.custom_ops import refuse


def npu_transpose(self, perm, require_contiguous=True):
    """The result is contiguous whatever require_contiguous says, which is about the input of the official kernel."""
    return self.permute(perm).contiguous()


def npu_reshape(self, shape, can_refresh=False):
    """A copy, also with can_refresh, which permits the official kernel to change the input."""
    return self.reshape(shape).clone()


def npu_slice(self, offsets, size):
    for dim, (begin, length) in enumerate(zip(offsets, size)):
        self = self.narrow(dim, begin, self.shape[dim] - begin if length == -1 else length)
    return self.contiguous()


def npu_broadcast(self, size):
    return self.expand(size).contiguous()


def npu_pad(input, paddings):
    """Zeros; `paddings` begins with the first dimension, unlike torch's."""
    pairs = [paddings[i : i + 2] for i in range(0, len(paddings), 2)]
    return pad(input, [n for pair in reversed(pairs) for n in pair])


def npu_one_hot(self, num_classes=-1, depth=1, on_value=1, off_value=0):
    """num_classes is the axis of the classes, whatever its name says: the last one."""
    if num_classes not in (-1, self.dim()):
        raise NotImplementedError(f"npu_one_hot: num_classes is {num_classes}, expected -1 or {self.dim()}, the last axis of the result")
    hit = self.unsqueeze(-1) == torch.arange(depth, device=self.device)
    return torch.where(hit, float(on_value), float(off_value))


def npu_linear(input, weight, bias=None):
    return input.mm(weight.t()) if bias is None and input.dim() == 2 else linear(input, weight, bias)


def npu_max_dim(self, dim, keepdim=False):
    values, indices = torch.max(self, dim, keepdim)
    return values, indices.to(torch.int32)


def npu_min_dim(self, dim, keepdim=False):
    values, indices = torch.min(self, dim, keepdim)
    return values, indices.to(torch.int32)


def npu_sort_v2(self, dim=-1, descending=False):
    return torch.sort(self, dim, descending).values


def npu_scatter(self, indices, updates, dim):
    return self.scatter(dim, indices.long().unsqueeze(dim), updates.unsqueeze(dim))


def npu_stride_copy(self, shape, stride, storage_offset):
    return self.as_strided(shape, stride, int(storage_offset)).clone(memory_format=torch.contiguous_format)


def npu_conv2d(input, weight, bias, stride, padding, dilation, groups):
    return conv2d(input, weight, bias, stride, padding, dilation, groups)


def npu_conv3d(input, weight, bias, stride, padding, dilation, groups):
    return conv3d(input, weight, bias, stride, padding, dilation, groups)


def npu_convolution(input, weight, bias, stride, padding, dilation, groups):
    return (conv3d if weight.dim() == 5 else conv2d)(input, weight, bias, stride, padding, dilation, groups)


def npu_conv_transpose2d(input, weight, bias, padding, output_padding, stride, dilation, groups):
    return conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation)


def npu_indexing(self, begin, end, strides, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0):
    """self[begin:end:stride, ...]; a bit of begin_mask or end_mask leaves that bound out, one of shrink_axis_mask drops the dimension."""
    refuse("npu_indexing", ellipsis_mask=ellipsis_mask, new_axis_mask=new_axis_mask, strides=any(s <= 0 for s in strides))
    places = []
    for dim, (first, last, step) in enumerate(zip(begin, end, strides)):
        bit = 1 << dim
        slices = slice(None if begin_mask & bit else first, None if end_mask & bit else last, step)
        places.append(first if shrink_axis_mask & bit else slices)
    return self[tuple(places)].clone(memory_format=torch.contiguous_format)


def npu_view_copy(self, other, non_blocking):
    return self.copy_(other, non_blocking)


def npu_convolution_transpose(input, weight, bias, padding, output_padding, stride, dilation, groups):
    operator = conv_transpose3d if weight.dim() == 5 else conv_transpose2d
    return operator(input, weight, bias, stride, padding, output_padding, groups, dilation)


def npu_linear_backward(grad, input, weight):
    rows = grad.reshape(-1, grad.shape[-1])
    return (rows.mm(weight).view(*grad.shape[:-1], weight.shape[1]), rows.t().mm(input.reshape(-1, input.shape[-1])))


def npu_prefetch(input, dependency, max_size, offset=0):
    """A hint: at most max_size bytes of input's memory, from offset on, are brought into the card's cache, which softnpu has none of.

    Behind the work of the current stream, which made `dependency`.
    """
    if type(input) is torch.Tensor and not torch._is_functional_tensor(input) and input.device.type != "meta":  # else it is traced
        _C.prefetch(input, max_size, offset)


def npu_sign_bits_pack(self, size):
    """One bit per number, set unless it is negative, eight to a byte; [size, bytes]. Missing ones count as negative."""
    bits = pad((self >= 0).to(torch.int32), [0, -self.numel() % (8 * size)]).view(-1, 8)
    return (bits << torch.arange(8, device=self.device)).sum(1).to(torch.uint8).view(size, -1)


def npu_sign_bits_unpack(input, size, dtype):
    """1 or -1 for each bit; [size, numbers]."""
    bits = (input.to(torch.int32).unsqueeze(-1) >> torch.arange(8, device=input.device)) & 1
    return (bits * 2 - 1).to(dtype).view(size, -1)


def _into(function):
    """The overload with out=, which takes the result's shape."""

    def with_out(*args, out, **kwargs):
        result = function(*args, **kwargs)
        return out.resize_(result.shape).copy_(result)

    return with_out


npu_slice_out, npu_transpose_out, npu_reshape_out, npu_broadcast_out = map(_into, (npu_slice, npu_transpose, npu_reshape, npu_broadcast))
npu_stride_copy_out, npu_sort_v2_out, npu_indexing_out = map(_into, (npu_stride_copy, npu_sort_v2, npu_indexing))
npu_conv2d_out, npu_conv3d_out = map(_into, (npu_conv2d, npu_conv3d))
