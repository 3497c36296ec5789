"""Sampling of feature maps at regions and at learned offsets."""

import torch
from torch.nn.functional import grid_sample


def npu_ps_roi_pooling_backward(output_grad, rois, spatial_scale, group_size, output_dim, input_size):
    """input_size: height and width of the features, whose other sizes follow from rois and output_dim."""
    if len(input_size) != 2:
        raise ValueError(f"npu_ps_roi_pooling_backward: input_size must be height and width, got {list(input_size)}")
    shape = (rois.shape[0], group_size * group_size * output_dim, *input_size)
    return _pullback(lambda x: npu_ps_roi_pooling(x, rois, spatial_scale, group_size, output_dim), output_grad, shape)


def _pullback(function, grad, shape):
    """The pooling is linear in the features: any will do."""
    with torch.enable_grad():
        features = torch.zeros(shape, dtype=grad.dtype, device=grad.device, requires_grad=True)
        return torch.autograd.grad(function(features), features, grad)[0]


def grid_points(begin, size, height, width, rows, columns):
    """y and x ([n, points]) of height x width bins with rows x columns samples each, of regions given by begin and size (x, y)."""

    def points(start, length, bins, samples):
        steps = (torch.arange(bins * samples, device=begin.device, dtype=begin.dtype) + 0.5) / (bins * samples)
        return start.unsqueeze(1) + length.unsqueeze(1) * steps

    y, x = points(begin[:, 1], size[:, 1], height, rows), points(begin[:, 0], size[:, 0], width, columns)
    return y.unsqueeze(2).expand(-1, -1, x.shape[1]).flatten(1), x.unsqueeze(1).expand(-1, y.shape[1], -1).flatten(1)


def npu_ps_roi_pooling(self, rois, spatial_scale, group_size, output_dim):
    """Position sensitive pooling: bin (i, j) of output channel d averages channel (d, i, j). rois: [batch, 5, n]."""
    height, width = self.shape[-2:]
    flat = rois.transpose(1, 2).reshape(-1, 5)
    begin, end = flat[:, 1:3].round() * spatial_scale, (flat[:, 3:5].round() + 1.0) * spatial_scale
    size = (end - begin).clamp(min=0.1) / group_size
    bins = torch.arange(group_size, device=self.device, dtype=self.dtype)

    def inside(start, step, length):
        low = (start.unsqueeze(1) + bins * step.unsqueeze(1)).floor().clamp(0, length)
        high = (start.unsqueeze(1) + (bins + 1) * step.unsqueeze(1)).ceil().clamp(0, length)
        pixel = torch.arange(length, device=self.device, dtype=self.dtype)
        return ((pixel >= low.unsqueeze(-1)) & (pixel < high.unsqueeze(-1))).to(self.dtype)

    rows, columns = inside(begin[:, 1], size[:, 1], height), inside(begin[:, 0], size[:, 0], width)
    features = self.view(-1, output_dim, group_size, group_size, height, width)[flat[:, 0].long()]
    sums = ((features * columns[:, None, None, :, None, :]).sum(-1) * rows[:, None, :, None, :]).sum(-1)
    count = rows.sum(-1)[:, None, :, None] * columns.sum(-1)[:, None, None, :]
    return sums / count.clamp(min=1.0)


def deformable(input, weight, shift_y, shift_x, factors, stride, padding, dilation, groups):
    """(convolution, samples) at points moved by shift_y and shift_x [n, deformable groups, kernel positions, rows, columns]."""
    n, channels, height, width = input.shape
    kh, kw = weight.shape[-2:]
    parts, (out_h, out_w) = shift_y.shape[1], shift_y.shape[-2:]

    def steps(count, step, start=0):
        return torch.arange(count, device=input.device, dtype=input.dtype) * step - start

    y = shift_y + steps(kh, dilation[0]).repeat_interleave(kw).view(-1, 1, 1) + steps(out_h, stride[0], padding[0]).view(-1, 1)
    x = shift_x + steps(kw, dilation[1]).repeat(kh).view(-1, 1, 1) + steps(out_w, stride[1], padding[1])
    grid = torch.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], -1).flatten(0, 1).flatten(2, 3)
    sampled = grid_sample(input.reshape(n * parts, channels // parts, height, width), grid, "bilinear", "zeros", align_corners=False)
    sampled = sampled.view(n, parts, -1, kh * kw, out_h, out_w)
    if factors is not None:
        sampled = sampled * factors.unsqueeze(2)
    columns = sampled.reshape(n, groups, channels // groups * kh * kw, out_h * out_w)
    kernels = weight.reshape(groups, weight.shape[0] // groups, -1)
    return (kernels.unsqueeze(0) @ columns).view(n, weight.shape[0], out_h, out_w), sampled
