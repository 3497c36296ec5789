"""Quantisation and products of small integers. Sums of products are exact."""

import torch
from torch.nn.functional import conv2d

from torch_npu.custom_ops import refuse
from torch_npu.custom_ops.cast import dtype_of

# Numbers of `dtype` arguments that name a quantised type stand for its integers.
_INTEGERS = {12: torch.int8, 13: torch.uint8, 14: torch.int32}


def _integer(number: int) -> torch.dtype:
    return _INTEGERS.get(number) or dtype_of(number)


def _round_to(x, dtype):
    limits = torch.iinfo(dtype)
    return x.round().clamp(limits.min, limits.max).to(dtype)


def _along(values, dim: int, axis: int):
    """Per-channel values shaped to lie along one dimension."""
    shape = [1] * dim
    shape[axis] = -1
    return values.reshape(shape) if values.numel() > 1 else values


def npu_quantize(self, scales, zero_points, dtype, axis=1, div_mode=True):
    """round(x / scale + zero point); div_mode=False multiplies by the scale."""
    scale = _along(scales.float(), self.dim(), axis)
    x = self.float() / scale if div_mode else self.float() * scale
    if zero_points is not None:
        x = x + _along(zero_points.float(), self.dim(), axis)
    return _round_to(x, _integer(dtype))


def npu_anti_quant(x, scale, *, offset=None, dst_dtype=None, src_dtype=None):
    """(x + offset) * scale."""
    wide = x.float() if offset is None else x.float() + offset.float()
    return (wide * scale.float()).to(torch.float16 if dst_dtype is None else dtype_of(dst_dtype))


def npu_trans_quant_param(scale, offset=None, round_mode=0):
    """The form in which the hardware takes a scale: its float32 bits in an int64."""
    refuse("npu_trans_quant_param", offset=offset is not None)
    return scale.float().view(torch.int32).to(torch.int64) & 0xFFFFFFFF


def _scale_of(scale):
    return scale.to(torch.int32).view(torch.float32) if scale.dtype == torch.int64 else scale.float()


def _finish(product, scale, pertoken_scale, offset, output_dtype, default):
    result = product.float() * scale
    if pertoken_scale is not None:
        result = result * pertoken_scale.float().unsqueeze(-1)
    dtype = default if output_dtype is None else dtype_of(output_dtype)
    if dtype == torch.int8:
        return _round_to(result if offset is None else result + offset.float(), dtype)
    return result.to(dtype)


def npu_quant_matmul(x1, x2, scale, *, offset=None, pertoken_scale=None, bias=None, output_dtype=None, x1_dtype=None, x2_dtype=None,
                     pertoken_scale_dtype=None, scale_dtype=None, group_sizes=None, y_scale=None):
    """((x1 x2 + bias) * scale * pertoken_scale); an int8 result is rounded and has the offset added."""
    refuse("npu_quant_matmul", x1_dtype=x1_dtype, x2_dtype=x2_dtype, group_sizes=group_sizes, y_scale=y_scale is not None)
    product = x1.double() @ x2.double()
    late = bias is not None and bias.is_floating_point()
    if bias is not None and not late:
        product = product + bias.double()
    if output_dtype is not None and dtype_of(output_dtype) == torch.int32:
        return product.to(torch.int32)
    result = _finish(product, _scale_of(scale), pertoken_scale, offset, output_dtype, torch.int8)
    return result + bias.to(result.dtype) if late else result


def npu_dynamic_quant(input, *, smooth_scales=None, group_index=None, dst_type=None, quant_mode="pertoken", dst_type_max=0.0):
    """(int8 values, one float32 scale per row)."""
    refuse("npu_dynamic_quant", group_index=group_index is not None, dst_type=dst_type not in (None, 1),
           quant_mode=quant_mode != "pertoken")
    x = input.float() if smooth_scales is None else input.float() * smooth_scales.float()
    scale = x.abs().amax(-1) / 127.0
    return _round_to(x / scale.clamp(min=1e-12).unsqueeze(-1), torch.int8), scale


def npu_weight_quant_batchmatmul(x, weight, antiquant_scale, antiquant_offset=None, quant_scale=None, quant_offset=None, bias=None,
                                 antiquant_group_size=0, inner_precise=0, weight_dtype=None):
    """x ((weight + offset) * scale) + bias; with a group size, scales change after so many rows of the weight."""
    refuse("npu_weight_quant_batchmatmul", quant_scale=quant_scale is not None, weight_dtype=weight_dtype)

    def spread(t):
        t = t.float()
        return t.repeat_interleave(antiquant_group_size, 0)[: weight.shape[0]] if antiquant_group_size else t

    wide = weight.float() if antiquant_offset is None else weight.float() + spread(antiquant_offset)
    result = x @ (wide * spread(antiquant_scale)).to(x.dtype)
    return result if bias is None else result + bias.to(x.dtype)


def npu_quant_conv2d(input, weight, scale, strides=1, pads=0, dilations=1, groups=1, offset_x=0, round_mode="rint", output_dtype=None,
                     bias=None, offset=None, input_dtype=None, weight_dtype=None):
    """(convolution + bias) * scale per output channel."""
    refuse("npu_quant_conv2d", offset_x=offset_x, round_mode=round_mode != "rint")
    product = conv2d(input.double(), weight.double(), None if bias is None else bias.double(), strides, pads, dilations, groups)
    return _finish(product, _scale_of(scale).view(-1, 1, 1), None, offset, output_dtype, torch.float16)


def npu_dynamic_quant_asymmetric(input, *, smooth_scales=None, group_index=None, dst_type=None, quant_mode="pertoken", dst_type_max=0.0):
    """(int8 values, scale, offset) of each row: the smallest number becomes -128, the largest 127."""
    refuse("npu_dynamic_quant_asymmetric", group_index=group_index is not None, dst_type=dst_type not in (None, 1),
           quant_mode=quant_mode != "pertoken")
    x = input.float() if smooth_scales is None else input.float() * smooth_scales.float()
    largest = x.amax(-1)
    scale = (largest - x.amin(-1)) / 255.0
    safe = scale.clamp(min=1e-12)
    offset = 127.0 - largest / safe
    return _round_to(x / safe.unsqueeze(-1) + offset.unsqueeze(-1), torch.int8), scale, offset


def npu_dequant_bias(x, weight_scale, activation_scale, bias, *, output_dtype=None):
    """(x + integer bias) * weight scale * activation scale; a floating bias is added at the end."""
    late = bias is not None and bias.is_floating_point()
    result = (x if bias is None or late else x + bias).float() * weight_scale.float()
    if activation_scale is not None:
        result = result * activation_scale.float().unsqueeze(-1)
    return (result + bias.float() if late else result).to(output_dtype or torch.float16)


def npu_group_quant(x, scale, group_index, *, offset=None, dst_dtype=None):
    """round(x * the scale of the row's group + offset); group_index holds the ends of the groups."""
    refuse("npu_group_quant", dst_dtype=dst_dtype not in (None, torch.int8))
    group = (torch.arange(len(x), device=x.device).unsqueeze(1) >= group_index).sum(1).clamp(max=len(scale) - 1)
    result = x.float() * scale.float()[group]
    return _round_to(result if offset is None else result + offset.float(), torch.int8)


def npu_add_rms_norm_quant(x1, x2, gamma, scales1, zero_points1, beta=None, scales2=None, zero_points2=None, *, axis=-1, epsilon=1e-6,
                           div_mode=True, dst_type=None):
    """(quantised norm, the same by scales2, sum of the inputs); see npu_quantize for div_mode."""
    refuse("npu_add_rms_norm_quant", dst_type=dst_type not in (None, 1), axis=axis != -1)
    y, _, x = torch.ops.npu.npu_add_rms_norm(x1, x2, gamma, epsilon)
    y = y if beta is None else y + beta

    def quantised(scales, zero_points):
        if scales is None:
            return y.new_empty(0, dtype=torch.int8)
        return npu_quantize(y, scales, zero_points, 1, -1, div_mode)

    return quantised(scales1, zero_points1), quantised(scales2, zero_points2), x


def npu_add_rms_norm_dynamic_quant(x1, x2, gamma, *, smooth_scale1=None, smooth_scale2=None, beta=None, epsilon=1e-6, output_mask=None,
                                   y_dtype=None):
    """(int8 norm, the same smoothed by smooth_scale2, sum of the inputs, scales of both)."""
    refuse("npu_add_rms_norm_dynamic_quant", output_mask=output_mask is not None, y_dtype=y_dtype not in (None, 1))
    y, _, x = torch.ops.npu.npu_add_rms_norm(x1, x2, gamma, epsilon)
    y = y if beta is None else y + beta
    first, scale1 = npu_dynamic_quant(y, smooth_scales=smooth_scale1)
    if smooth_scale2 is None:
        return first, first.new_empty(0), x, scale1, scale1.new_empty(0)
    second, scale2 = npu_dynamic_quant(y, smooth_scales=smooth_scale2)
    return first, second, x, scale1, scale2


def npu_convert_weight_to_int4pack(weight, inner_k_tiles=0):
    """Eight int4 numbers of a row in one int32, the first in the lowest bits."""
    numbers = (weight & 15).to(torch.int64).unflatten(-1, (-1, 8))
    packed = (numbers << (4 * torch.arange(8, device=weight.device))).sum(-1)
    return torch.where(packed >= 1 << 31, packed - (1 << 32), packed).to(torch.int32)
