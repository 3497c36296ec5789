"""Plain torch under the names of older code: views and copies, products, convolutions, reductions."""

import torch
from torch.nn.functional import conv2d, conv3d, conv_transpose2d, linear, pad


def npu_confusion_transpose(self, perm, shape, transpose_first):
    """Permute and reshape in one, in either order; the result is contiguous."""
    if transpose_first:
        return self.permute(perm).reshape(shape)
    return self.reshape(shape).permute(perm).contiguous()


def npu_confusion_transpose_backward(grad, perm, shape, transpose_first):
    back = [perm.index(i) for i in range(len(perm))]
    if transpose_first:
        return grad.reshape([shape[i] for i in perm]).permute(back).contiguous()
    return grad.permute(back).reshape(shape)


def npu_transpose(self, perm, require_contiguous=True):
    return self.permute(perm).contiguous()


def npu_reshape(self, shape, can_refresh=False):
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
    hit = self.unsqueeze(-1) == torch.arange(depth, device=self.device)
    return torch.where(hit, float(on_value), float(off_value))


def npu_linear(input, weight, bias=None):
    return linear(input, weight, bias)


def npu_bmmV2(self, mat2, output_sizes):
    result = torch.matmul(self, mat2)
    return result.view(output_sizes) if output_sizes else result


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


def npu_scatter_nd_update_(self, indices, updates):
    return self.index_put_(indices.long().unbind(-1), updates)


def npu_scatter_nd_update(self, indices, updates):
    return self.index_put(indices.long().unbind(-1), updates)


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
