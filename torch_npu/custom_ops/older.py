"""Operators of older models that have no aclnn name: normalised batches, ranges that are filled, partial sums, calibration."""

import torch


def npu_normalize_batch(self, seq_len, normalize_type=0):
    """[batch, features, length] by mean and deviation of the first seq_len numbers: of each feature (0), or of all together (1)."""
    if normalize_type not in (0, 1):
        raise ValueError(f"npu_normalize_batch: normalize_type is {normalize_type}, expected 0 (each feature) or 1 (all features)")
    dims = (2,) if normalize_type == 0 else (1, 2)
    seen = (torch.arange(self.shape[2], device=self.device) < seq_len.view(-1, 1, 1)).to(self.dtype)
    count = seq_len.view(-1, 1, 1) * (1 if normalize_type == 0 else self.shape[1])
    mean = (self * seen).sum(dims, keepdim=True) / count
    deviation = (((self - mean) * seen).square().sum(dims, keepdim=True) / (count - 1)).sqrt()
    return (self - mean) / (deviation + 1e-5)


def npu_masked_fill_range(self, start, end, value, axis=-1):
    """value[i] where the place along axis lies in [start[i, j], end[i, j]), for every j; along the last of several dimensions, in row j."""
    if start.dim() != 2 or start.shape != end.shape or len(value) != len(start):
        raise ValueError(f"npu_masked_fill_range: start, end and value have shapes {list(start.shape)}, {list(end.shape)} and "
                         f"{list(value.shape)}, expected [count, rows] twice and [count]")
    axis = range(self.dim())[axis]
    places = torch.arange(self.shape[axis], device=self.device)
    inside = (places >= start.unsqueeze(-1)) & (places < end.unsqueeze(-1))
    if self.dim() > 1 and axis == self.dim() - 1:
        missing = self.shape[0] - start.shape[1]
        inside = torch.cat([inside, inside.new_zeros(len(start), missing, self.shape[axis])], 1)
        masks = inside.reshape(len(start), self.shape[0], *[1] * (self.dim() - 2), self.shape[axis])
    else:
        masks = inside.any(1).reshape(len(start), *(self.shape[axis] if i == axis else 1 for i in range(self.dim())))
    result = self.clone()
    for mask, number in zip(masks, value):
        result = torch.where(mask, number, result)
    return result


def npu_stride_add(self, other, offset1, offset2, c1_len):
    """The sum of c1_len blocks of 16 channels each, behind offset1 and offset2 blocks; a last block is filled up with zeros."""
    def blocks(t, name, offset):
        whole = -(-t.shape[1] // 16)
        if offset < 0 or offset + c1_len > whole:
            raise ValueError(f"npu_stride_add: {name} and c1_len are {offset} and {c1_len}, but the tensor has {whole} blocks of 16 "
                             "channels")
        missing = t.new_zeros(t.shape[0], whole * 16 - t.shape[1], *t.shape[2:])
        return torch.cat([t, missing], 1)[:, offset * 16 : (offset + c1_len) * 16]

    return blocks(self, "offset1", offset1) + blocks(other, "offset2", offset2)


def npu_ifmr(data, data_min, data_max, cumsum, min_percentile, max_percentile, search_start, search_end, search_step, with_offset):
    """(scale, offset) of int8 with the smallest square error, around the range that holds the percentiles of a histogram."""
    shape, numbers = data_min.shape, data.float().flatten()
    low, high, bins = data_min.reshape(()).float(), data_max.reshape(()).float(), cumsum.numel()
    share = cumsum.float() / data.numel()
    top = (share < max_percentile).sum() / bins * (high - low) + low
    bottom = (share < 1 - min_percentile).sum() / bins * (high - low) + low
    steps = torch.arange(search_start, search_end, search_step, device=data.device, dtype=torch.float32)
    if with_offset:
        bottom = bottom.clamp(max=0)
        scales = (top.clamp(min=0) * steps - bottom) / 255
        scales = torch.where(scales < torch.finfo(torch.float32).eps, 1.0, scales)
        offsets = -(torch.round(bottom / scales) + 128)
    else:
        scales = torch.maximum(top.abs(), bottom.abs()) * steps / 127
        offsets = torch.zeros_like(scales)
    losses = [((torch.round(numbers / scale) + offset).clamp(-128, 127).sub(offset).mul(scale) - numbers).square().sum()
              for scale, offset in zip(scales, offsets)]
    best = torch.stack(losses).argmin(0, keepdim=True)
    return scales.gather(0, best).reshape(shape), offsets.gather(0, best).reshape(shape)


def _amp_foreach_non_finite_check(scaled_grads):
    """Whether a number is infinite or none. The official plugin asks a register of the card that says so of all computations."""
    return bool(scaled_grads) and bool(torch.stack([~torch.isfinite(t).all() for t in scaled_grads]).any())
