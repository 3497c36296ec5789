"""Modules that move values between space and channels."""

import torch
from torch import nn

__all__ = ["ChannelShuffle", "Focus"]


class ChannelShuffle(nn.Module):
    """Joins two tensors along channels and interleaves groups of channels; split_shuffle=True gives the halves back."""

    def __init__(self, in_channels: int, groups: int = 2, split_shuffle: bool = True) -> None:
        super().__init__()
        self.in_channels, self.groups, self.split_shuffle = in_channels, groups, split_shuffle

    def check_self(self, x) -> None:
        """Channels must divide into groups and, to be split again, into halves."""
        for divisor in (self.groups, 2 if self.split_shuffle else 1):
            if x.shape[1] % divisor:
                raise ValueError(f"{x.shape[1]} channels cannot be divided by {divisor}")

    def forward(self, x1, x2):
        x = torch.cat([x1, x2], 1)
        self.check_self(x)
        x = x.unflatten(1, (self.groups, -1)).transpose(1, 2).flatten(1, 2)
        return tuple(x.chunk(2, 1)) if self.split_shuffle else x


class Focus(nn.Module):
    """YOLO's stem: every second row and column becomes channels, then convolution, batch norm and SiLU."""

    def __init__(self, c1, c2, k=1, s=1, p=None, g=1, act=True) -> None:
        super().__init__()
        padding = p if p is not None else k // 2 if isinstance(k, int) else tuple(n // 2 for n in k)
        self.conv = nn.Conv2d(c1 * 4, c2, k, s, padding, groups=g, bias=False)
        self.bn = nn.BatchNorm2d(c2)
        self.act = nn.SiLU() if act is True else act if isinstance(act, nn.Module) else nn.Identity()

    def forward(self, x):
        parts = [x[..., row::2, column::2] for row, column in ((0, 0), (1, 0), (0, 1), (1, 1))]
        return self.act(self.bn(self.conv(torch.cat(parts, 1))))
