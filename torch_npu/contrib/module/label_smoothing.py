"""Cross entropy with smoothed labels."""

import torch
from torch import nn

__all__ = ["LabelSmoothingCrossEntropy"]


class LabelSmoothingCrossEntropy(nn.Module):
    """The right class has 1 - smooth_factor of the weight, the others share the rest equally."""

    def __init__(self, num_classes=1000, smooth_factor=0.0) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.on_value, self.off_value = 1.0 - smooth_factor, smooth_factor / (num_classes - 1)

    def forward(self, pred, target):
        weights = torch.ops.npu.npu_one_hot(target, -1, self.num_classes, self.on_value, self.off_value)
        return -(weights * torch.log_softmax(pred, -1)).sum(-1).mean()
