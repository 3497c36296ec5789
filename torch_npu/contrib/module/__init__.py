"""torch_npu.contrib.module."""

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
