"""Deformable convolution, version 2: sampling points and their weights are learned."""

import math

import torch
from torch import nn
from torch.nn.modules.utils import _pair

__all__ = ["DCNv2", "ModulatedDeformConv"]


class ModulatedDeformConv(nn.Module):
    """pack=True: a convolution makes offsets and weights from the input; else forward takes (input, offset, mask).

    Offsets come in pairs (vertical, horizontal) per deformable group and kernel position, as in detection libraries.
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, deformable_groups=1,
                 bias=True, pack=True) -> None:
        super().__init__()
        self.kernel_size, self.stride = _pair(kernel_size), _pair(stride)
        self.padding, self.dilation = _pair(padding), _pair(dilation)
        self.groups, self.deformable_groups = groups, deformable_groups
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *self.kernel_size))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        points = deformable_groups * self.kernel_size[0] * self.kernel_size[1]
        self.conv_offset = None
        if pack:
            self.conv_offset = nn.Conv2d(in_channels, 3 * points, self.kernel_size, self.stride, self.padding, self.dilation)
        self.init_param()

    def init_param(self) -> None:
        bound = 1.0 / math.sqrt(self.weight[0].numel())
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if self.conv_offset is not None:
            nn.init.zeros_(self.conv_offset.weight)
            nn.init.zeros_(self.conv_offset.bias)  # type: ignore[arg-type] # made with a bias

    def forward(self, x, offset=None, mask=None):
        if self.conv_offset is not None:
            first, second, weights = self.conv_offset(x).chunk(3, 1)
            offset, mask = torch.cat([first, second], 1), torch.sigmoid(weights)
        arranged = torch.cat([offset[:, 1::2], offset[:, 0::2], mask], 1)
        (sy, sx), (py, px), (dy, dx) = self.stride, self.padding, self.dilation
        return torch.ops.npu.npu_deformable_conv2d(x, self.weight, arranged, self.bias, self.kernel_size, [1, 1, sy, sx],
                                                   [py, py, px, px], [1, 1, dy, dx], self.groups, self.deformable_groups, True)[0]


DCNv2 = ModulatedDeformConv
