"""torchvision's operators composed from ATen operators; arguments and results as in torchvision's own kernels.

They run below autograd, whose formulas are torchvision's and call the `_..._backward` operators. Those repeat the forward
computation with autograd and pull the gradient back through it.
"""

import contextlib

import torch

from torch_npu._torchvision.rotated import box_iou_rotated
from torch_npu.custom_ops.boxes import overlap
from torch_npu.custom_ops.nms import survivors
from torch_npu.custom_ops.roi import deformable, grid_points

_NMS_BLOCK = 1024  # rows of the overlap matrix that exist at a time
_POOL_ELEMENTS = 1 << 22  # elements of the largest intermediate of roi_pool


def nms(dets, scores, iou_threshold):
    """Numbers of the boxes that no better surviving box overlaps by more than the threshold, best first."""
    torch._check(dets.dim() == 2, lambda: f"boxes should be a 2d tensor, got {dets.dim()}D")
    torch._check(dets.size(1) == 4, lambda: f"boxes should have 4 elements in dimension 1, got {dets.size(1)}")
    torch._check(scores.dim() == 1, lambda: f"scores should be a 1d tensor, got {scores.dim()}D")
    torch._check(dets.size(0) == scores.size(0), lambda: "boxes and scores should have same number of elements in dimension 0, "
                 f"got {dets.size(0)} and {scores.size(0)}")
    order = scores.argsort(descending=True, stable=True)
    boxes = _wide(dets)[order]
    alive = torch.ones(len(boxes), dtype=torch.bool, device=boxes.device)
    for start in range(0, len(boxes), _NMS_BLOCK):
        block, rest = boxes[start : start + _NMS_BLOCK], boxes[start + _NMS_BLOCK :]
        kept = survivors(block, iou_threshold, alive[start : start + _NMS_BLOCK])
        alive[start : start + _NMS_BLOCK] = kept
        if len(rest):
            alive[start + _NMS_BLOCK :] &= ~(overlap(block[kept].unsqueeze(1), rest)[0] > iou_threshold).any(0)
    return order[alive]


def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    """Averages of bilinear samples in bins; without a sampling ratio, as many samples as a bin has pixels."""
    _check_rois(input, rois)
    features, regions = _wide(input), _wide(rois)
    values = _aligned(features, regions, spatial_scale, (pooled_height, pooled_width), sampling_ratio, aligned, _means)
    return values.to(input.dtype)


def ps_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    """roi_align in which every bin has channels of its own; and the numbers of those channels."""
    _check_rois(input, rois)
    mapping = _channel_mapping(input, len(rois), pooled_height, pooled_width)
    bins = (pooled_height, pooled_width)
    return _aligned(_wide(input), _wide(rois), spatial_scale, bins, sampling_ratio, True, _own_channels).to(input.dtype), mapping


def _aligned(features, rois, scale, bins, sampling_ratio, aligned, reduce):
    """roi_align of regions grouped by their number of samples; `reduce` makes a result of values [n, C, bin, sample, bin, sample]."""
    shift = 0.5 if aligned else 0.0
    begin = rois[:, 1:3] * scale - shift
    size = rois[:, 3:5] * scale - shift - begin
    size = size if aligned else size.clamp(min=1.0)
    channels = features.shape[1]
    result = features.new_zeros(len(rois), *reduce(features.new_empty(0, channels, bins[0], 1, bins[1], 1)).shape[1:])
    if sampling_ratio > 0:
        groups = {(sampling_ratio, sampling_ratio): slice(None)}
    else:
        samples = (size.flip(1) / torch.tensor(bins, device=size.device)).ceil().long()
        groups = {tuple(s): (samples == samples.new_tensor(s)).all(1).nonzero()[:, 0] for s in samples.unique(dim=0).tolist()}
    for (rows, columns), chosen in groups.items():
        if rows <= 0 or columns <= 0:
            continue  # an empty region has no samples
        y, x = grid_points(begin[chosen], size[chosen], *bins, rows, columns)
        values = _bilinear(features, rois[chosen, 0], y, x).view(-1, channels, bins[0], rows, bins[1], columns)
        result = result.index_copy(0, torch.arange(len(rois), device=rois.device)[chosen], reduce(values))
    return result


def _bilinear(features, numbers, y, x):
    """features[numbers[i]] at the points y[i], x[i] ([n, points]) -> [n, channels, points]; outside of the map by a pixel: zero."""
    height, width = features.shape[-2:]
    outside = (y < -1.0) | (y > height) | (x < -1.0) | (x > width)
    y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    y0, x0 = y.floor(), x.floor()
    fy, fx = y - y0, x - x0
    y0, x0 = y0.long(), x0.long()
    y1, x1 = (y0 + 1).clamp(max=height - 1), (x0 + 1).clamp(max=width - 1)
    index = numbers.long().view(-1, 1)
    result = 0.0
    for ys, wy in ((y0, 1 - fy), (y1, fy)):
        for xs, wx in ((x0, 1 - fx), (x1, fx)):
            result = result + features[index, :, ys, xs] * (wy * wx).masked_fill(outside, 0.0).unsqueeze(-1)
    return result.transpose(1, 2)


def _means(values):
    return values.mean((3, 5))


def _own_channels(values):
    """Channel (c, i, j) for bin (i, j): [n, c·PH·PW, PH, s, PW, s] -> [n, c, PH, PW]."""
    means = _means(values)
    channels, height, width = means.shape[1:]
    by_bin = means.view(len(means), channels // (height * width), height, width, height, width)
    return by_bin.diagonal(dim1=2, dim2=4).diagonal(dim1=2, dim2=3)


def roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    """(largest value of each bin, its place in the feature map); an empty bin: 0 and -1."""
    _check_rois(input, rois)
    features, (channels, height, width) = input, input.shape[1:]
    rows, columns = _bins(_wide(rois), spatial_scale, pooled_height, pooled_width, height, width, last_pixel=1)
    image = rois[:, 0].long()
    step = max(1, _POOL_ELEMENTS // max(1, channels * height * width))
    values, places = [], []
    for start in range(0, len(rois), step):
        part = slice(start, start + step)
        best, where = _pool(features[image[part]], rows[part], columns[part])
        values.append(best)
        places.append(where)
    shape = (0, channels, pooled_height, pooled_width)
    return torch.cat([input.new_zeros(shape), *values]), torch.cat([input.new_zeros(shape, dtype=torch.int32), *places])


def _pool(features, rows, columns):
    """Columns first, then rows: the first largest value in reading order."""
    lowest, width = torch.finfo(features.dtype).min, features.shape[-1]
    values, places = [], []
    for j in range(columns.shape[1]):
        by_row, column = features.masked_fill(~columns[:, None, j, None, :], lowest).max(-1)  # [n, C, H]
        best, row = by_row.unsqueeze(2).masked_fill(~rows.unsqueeze(1), lowest).max(-1)  # [n, C, PH]
        values.append(best)
        places.append(row * width + column.gather(2, row))
    empty = ~(rows.any(-1)[:, None, :, None] & columns.any(-1)[:, None, None, :])
    return (torch.stack(values, -1).masked_fill(empty, 0.0), torch.stack(places, -1).masked_fill(empty, -1).int())


def ps_roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    """Averages of bins, each of channels of its own; and the numbers of those channels."""
    _check_rois(input, rois)
    mapping = _channel_mapping(input, len(rois), pooled_height, pooled_width)
    height, width = input.shape[-2:]
    # torchvision's forward kernel leaves out the last row and column of the map; its backward kernel does not.
    bins = _bins(_wide(rois), spatial_scale, pooled_height, pooled_width, height - 1, width - 1, extent=(height, width))
    return _position_averages(_wide(input), rois, *bins).to(input.dtype), mapping


def _position_averages(features, rois, rows, columns):
    height, width = features.shape[-2:]
    own = features.view(len(features), -1, rows.shape[1], columns.shape[1], height, width)[rois[:, 0].long()]
    rows, columns = rows.to(features.dtype), columns.to(features.dtype)
    sums = ((own * columns[:, None, None, :, None, :]).sum(-1) * rows[:, None, :, None, :]).sum(-1)
    return sums / (rows.sum(-1)[:, None, :, None] * columns.sum(-1)[:, None, None, :]).clamp(min=1.0)


def deform_conv2d(input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups,
                  use_mask):
    """Convolution at points shifted by offset (vertical, horizontal by turns), each sample times its mask."""
    kernel = weight.shape[-2:]
    shifts = offset.view(len(offset), offset_groups, kernel[0] * kernel[1], 2, *offset.shape[-2:])
    factors = mask.view(len(mask), offset_groups, -1, *mask.shape[-2:]) if use_mask else None
    out, _ = deformable(input, weight, shifts[:, :, :, 0], shifts[:, :, :, 1], factors, (stride_h, stride_w), (pad_h, pad_w),
                        (dilation_h, dilation_w), groups)
    return out + bias.view(-1, 1, 1)


def _roi_align_backward(grad, rois, spatial_scale, pooled_height, pooled_width, batch_size, channels, height, width, sampling_ratio,
                        aligned):
    features = grad.new_zeros(batch_size, channels, height, width)
    return _pullback(lambda x: roi_align(x, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned), grad, features)


def _ps_roi_align_backward(grad, rois, channel_mapping, spatial_scale, pooled_height, pooled_width, sampling_ratio, batch_size, channels,
                           height, width):
    features = grad.new_zeros(batch_size, channels, height, width)
    return _pullback(lambda x: ps_roi_align(x, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio)[0], grad, features)


def _roi_pool_backward(grad, rois, argmax, spatial_scale, pooled_height, pooled_width, batch_size, channels, height, width):
    planes = rois[:, 0].long().unsqueeze(1) * channels + torch.arange(channels, device=rois.device)
    places = planes[:, :, None, None] * (height * width) + argmax
    flat = grad.new_zeros(batch_size * channels * height * width)
    return flat.index_add(0, places.clamp(min=0).flatten(), grad.masked_fill(argmax < 0, 0.0).flatten()).view(
        batch_size, channels, height, width)


def _ps_roi_pool_backward(grad, rois, channel_mapping, spatial_scale, pooled_height, pooled_width, batch_size, channels, height, width):
    bins = _bins(_wide(rois), spatial_scale, pooled_height, pooled_width, height, width)
    return _pullback(lambda x: _position_averages(x, rois, *bins), grad, grad.new_zeros(batch_size, channels, height, width))


def _deform_conv2d_backward(grad, input, weight, offset, mask, bias, *options):
    use_mask = options[-1]

    def forward(*tensors):
        return deform_conv2d(tensors[0], tensors[1], tensors[2], tensors[3] if use_mask else mask, tensors[-1], *options)

    tensors = (input, weight, offset, mask, bias) if use_mask else (input, weight, offset, bias)
    grads = _pullback(forward, grad, *tensors)
    return grads if use_mask else (*grads[:3], torch.zeros_like(mask), grads[3])


def _pullback(forward, grad, *tensors):
    """Gradients of `tensors`: forward, run with autograd although the caller runs below it."""
    with _autograd():
        leaves = [t.detach().requires_grad_() for t in tensors]
        grads = torch.autograd.grad(forward(*leaves), leaves, grad)
    return grads[0] if len(tensors) == 1 else grads


@contextlib.contextmanager
def _autograd():
    include, exclude = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    for key in ("AutogradFunctionality", "AutogradOther", "AutogradNestedTensor", "ADInplaceOrView"):
        exclude = exclude.remove(getattr(torch._C.DispatchKey, key))
    with torch._C._ForceDispatchKeyGuard(include, exclude), torch.enable_grad():
        yield


def _bins(rois, scale, pooled_height, pooled_width, height, width, last_pixel=0, extent=None):
    """Which rows and columns of the map belong to each bin of each region: [K, PH, H], [K, PW, W].

    height and width limit the bins, `extent` is the size of the map where that is larger.
    """
    start, end = _round(rois[:, 1:3] * scale), _round(rois[:, 3:5] * scale)
    size = (end - start + last_pixel).clamp(min=1.0)

    def inside(axis, bins, limit, length):
        number = torch.arange(bins, device=rois.device, dtype=rois.dtype)
        step = (size[:, axis] / bins).unsqueeze(1)
        low = ((number * step).floor() + start[:, axis].unsqueeze(1)).clamp(0, limit)
        high = (((number + 1) * step).ceil() + start[:, axis].unsqueeze(1)).clamp(0, limit)
        pixel = torch.arange(length, device=rois.device, dtype=rois.dtype)
        return (pixel >= low.unsqueeze(-1)) & (pixel < high.unsqueeze(-1))

    rows, columns = extent or (height, width)
    return inside(1, pooled_height, height, rows), inside(0, pooled_width, width, columns)


def _round(x):
    """Halves away from zero, as in C."""
    return x.sign() * (x.abs() + 0.5).floor()


def _channel_mapping(input, count, height, width):
    torch._check(input.shape[1] % (height * width) == 0,
                 lambda: "input channels must be a multiple of pooling height * pooling width")
    numbers = torch.arange(input.shape[1], dtype=torch.int32, device=input.device)
    return numbers.view(-1, height, width).repeat(count, 1, 1, 1)


def _check_rois(input, rois):
    torch._check(rois.size(1) == 5, lambda: "rois must have shape as Tensor[K, 5]")
    torch._check(input.dtype == rois.dtype, lambda: "Expected tensor for input to have the same type as tensor for rois; "
                 f"but type {input.dtype} does not equal {rois.dtype}")


def _wide(tensor):
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


KERNELS = {
    kernel.__name__: kernel
    for kernel in (nms, box_iou_rotated, roi_align, _roi_align_backward, roi_pool, _roi_pool_backward, ps_roi_align,
                   _ps_roi_align_backward, ps_roi_pool, _ps_roi_pool_backward, deform_conv2d, _deform_conv2d_backward)
}
