"""Pooling of regions of feature maps."""

import torch
from torch import nn
from torch.nn.modules.utils import _pair

__all__ = ["PSROIPool", "ROIAlign"]


class ROIAlign(nn.Module):
    """Rows of rois are image, x1, y1, x2, y2. aligned=True shifts by half a pixel, as torchvision's aligned=True."""

    def __init__(self, output_size, spatial_scale, sampling_ratio, aligned=True) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = _pair(output_size), spatial_scale
        self.sampling_ratio, self.aligned = sampling_ratio, aligned

    def forward(self, input_tensor, rois):
        return torch.ops.npu.npu_roi_align(input_tensor, rois, self.spatial_scale, *self.output_size, max(self.sampling_ratio, 0),
                                           2 if self.aligned else 0)


class PSROIPool(nn.Module):
    """Position sensitive pooling; rois as [n, 5] or, by image, [batch, 5, n]. Bins are group_size x group_size."""

    def __init__(self, pooled_height=7, pooled_width=7, spatial_scale=0.0625, group_size=7, output_dim=22) -> None:
        super().__init__()
        if (pooled_height, pooled_width) != (group_size, group_size):
            raise ValueError("PSROIPool pools into group_size x group_size bins; pooled_height and pooled_width must equal group_size")
        self.spatial_scale, self.group_size, self.output_dim = spatial_scale, group_size, output_dim

    def forward(self, features, rois):
        rois = rois.t().unsqueeze(0) if rois.dim() == 2 else rois
        return torch.ops.npu.npu_ps_roi_pooling(features, rois, self.spatial_scale, self.group_size, self.output_dim)
