"""Layers whose weights, or weights and inputs, are small integers. They are filled from a quantised checkpoint."""

import torch
from torch import nn
from torch.nn.modules.utils import _pair

__all__ = ["LinearA8W8Quant", "LinearQuant", "LinearWeightQuant", "QuantConv2d"]


class LinearQuant(nn.Module):
    """int8 input times int8 weight, scaled: see torch.ops.npu.npu_quant_matmul.

    dtype is accepted for the official signature: weights are int8, and output_dtype is the result's type.
    """

    def __init__(self, in_features: int, out_features: int, *, bias: bool = True, offset: bool = False, pertoken_scale: bool = False,
                 device=None, dtype=None, output_dtype=None) -> None:
        super().__init__()
        self.in_features, self.out_features, self.output_dtype = in_features, out_features, output_dtype
        self.register_buffer("weight", torch.zeros(out_features, in_features, dtype=torch.int8, device=device))
        self.register_buffer("scale", torch.ones(out_features, device=device))
        self.register_buffer("offset", torch.zeros(out_features, device=device) if offset else None)
        self.register_buffer("pertoken_scale", torch.ones(1, device=device) if pertoken_scale else None)
        self.register_buffer("bias", torch.zeros(out_features, dtype=torch.int32, device=device) if bias else None)

    weight: torch.Tensor

    def forward(self, linear_quant_input: torch.Tensor) -> torch.Tensor:
        return torch.ops.npu.npu_quant_matmul(linear_quant_input, self.weight.t(), self.scale, offset=self.offset,
                                              pertoken_scale=self.pertoken_scale, bias=self.bias, output_dtype=self.output_dtype)


class LinearA8W8Quant(LinearQuant):
    """LinearQuant for 8-bit inputs and weights."""


class LinearWeightQuant(nn.Module):
    """Input in float times int8 weight: see torch.ops.npu.npu_weight_quant_batchmatmul.

    weight_dtype is accepted for the official signature: the weight is int8.
    """

    def __init__(self, in_features, out_features, bias: bool = True, device=None, dtype=None, antiquant_offset: bool = False,
                 quant_scale: bool = False, quant_offset: bool = False, antiquant_group_size: int = 0, inner_precise: int = 0,
                 weight_dtype=None) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.antiquant_group_size, self.inner_precise = antiquant_group_size, inner_precise
        groups = -(-in_features // antiquant_group_size) if antiquant_group_size else 1
        options = {"device": device, "dtype": dtype}
        self.register_buffer("weight", torch.zeros(out_features, in_features, dtype=torch.int8, device=device))
        self.register_buffer("antiquant_scale", torch.ones(groups, out_features, **options))
        self.register_buffer("antiquant_offset", torch.zeros(groups, out_features, **options) if antiquant_offset else None)
        self.register_buffer("quant_scale", torch.ones(out_features, device=device) if quant_scale else None)
        self.register_buffer("quant_offset", torch.zeros(out_features, device=device) if quant_offset else None)
        self.register_buffer("bias", torch.zeros(out_features, **options) if bias else None)

    weight: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.npu.npu_weight_quant_batchmatmul(x, self.weight.t(), self.antiquant_scale, self.antiquant_offset,
                                                          self.quant_scale, self.quant_offset, self.bias, self.antiquant_group_size,
                                                          self.inner_precise)


class QuantConv2d(nn.Module):
    """int8 convolution, scaled: see torch.ops.npu.npu_quant_conv2d.

    input_dtype, weight_dtype and dtype are accepted for the official signature: input and weight are int8.
    """

    def __init__(self, in_channels, out_channels, kernel_size, output_dtype, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 offset=False, offset_x=0, round_mode="rint", input_dtype=None, weight_dtype=None, device=None, dtype=None) -> None:
        super().__init__()
        self.stride, self.padding, self.dilation, self.groups = _pair(stride), _pair(padding), _pair(dilation), groups
        self.output_dtype, self.offset_x, self.round_mode = output_dtype, offset_x, round_mode
        shape = (out_channels, in_channels // groups, *_pair(kernel_size))
        self.register_buffer("weight", torch.zeros(shape, dtype=torch.int8, device=device))
        self.register_buffer("scale", torch.ones(out_channels, device=device))
        self.register_buffer("bias", torch.zeros(out_channels, dtype=torch.int32, device=device) if bias else None)
        self.register_buffer("offset", torch.zeros(out_channels, device=device) if offset else None)

    def forward(self, quant_conv2d_input: torch.Tensor) -> torch.Tensor:
        return torch.ops.npu.npu_quant_conv2d(quant_conv2d_input, self.weight, self.scale, self.stride, self.padding, self.dilation,
                                              self.groups, self.offset_x, self.round_mode, self.output_dtype, self.bias, self.offset)
