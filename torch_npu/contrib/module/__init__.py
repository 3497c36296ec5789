"""torch_npu.contrib.module."""

from torch_npu._refusal import alias_modules as _alias
from torch_npu.contrib.module import (
    channels as _channels,
    dropout as _dropout,
    label_smoothing as _label_smoothing,
    quantized as _quantized,
    roi as _roi,
)
from torch_npu.contrib.module.activations import Mish, SiLU, Swish
from torch_npu.contrib.module.batch_norm import FastBatchNorm1d, FastBatchNorm2d, FastBatchNorm3d, FastSyncBatchNorm
from torch_npu.contrib.module.bidirectional_lstm import BiLSTM
from torch_npu.contrib.module.channels import ChannelShuffle, Focus
from torch_npu.contrib.module.color_jitter import FusedColorJitter
from torch_npu.contrib.module.deform_conv import DCNv2, ModulatedDeformConv
from torch_npu.contrib.module.dropout import DropoutWithByteMask, NpuCachedDropout, NpuDropPath, NpuFairseqDropout, NpuPreGenDropout
from torch_npu.contrib.module.label_smoothing import LabelSmoothingCrossEntropy
from torch_npu.contrib.module.multihead_attention import MultiheadAttention
from torch_npu.contrib.module.prefetcher import Prefetcher
from torch_npu.contrib.module.quantized import LinearA8W8Quant, LinearQuant, LinearWeightQuant, QuantConv2d
from torch_npu.contrib.module.roi import PSROIPool, ROIAlign

__all__ = [
    "BiLSTM",
    "ChannelShuffle",
    "DCNv2",
    "DropoutWithByteMask",
    "FastBatchNorm1d",
    "FastBatchNorm2d",
    "FastBatchNorm3d",
    "FastSyncBatchNorm",
    "Focus",
    "FusedColorJitter",
    "LabelSmoothingCrossEntropy",
    "LinearA8W8Quant",
    "LinearQuant",
    "LinearWeightQuant",
    "Mish",
    "ModulatedDeformConv",
    "MultiheadAttention",
    "NpuCachedDropout",
    "NpuDropPath",
    "NpuFairseqDropout",
    "NpuPreGenDropout",
    "PSROIPool",
    "Prefetcher",
    "QuantConv2d",
    "ROIAlign",
    "SiLU",
    "Swish",
]

# The official plugin has a file for each of these.
_alias(__name__, {
    "channel_shuffle": _channels, "focus": _channels, "crossentropy": _label_smoothing, "drop_path": _dropout, "ensemble_dropout": _dropout,
    "npu_modules": _dropout, "linear_a8w8_quant": _quantized, "linear_quant": _quantized, "linear_weight_quant": _quantized,
    "quant_conv2d": _quantized, "ps_roi_pooling": _roi, "roi_align": _roi,
})
