"""torch_npu.optim: torch.optim's update rules on combined buffers, a handful of launches whatever the number of parameters."""

from torch_npu.optim.adamp import NpuFusedAdamP
from torch_npu.optim.base import NpuFusedOptimizerBase
from torch_npu.optim.bert_adam import NpuFusedBertAdam
from torch_npu.optim.lamb import NpuFusedLamb
from torch_npu.optim.rmsprop_tf import NpuFusedRMSpropTF
from torch_npu.optim.upstream import NpuFusedAdadelta, NpuFusedAdam, NpuFusedAdamW, NpuFusedRMSprop, NpuFusedSGD

__all__ = [
    "NpuFusedAdadelta",
    "NpuFusedAdam",
    "NpuFusedAdamP",
    "NpuFusedAdamW",
    "NpuFusedBertAdam",
    "NpuFusedLamb",
    "NpuFusedOptimizerBase",
    "NpuFusedRMSprop",
    "NpuFusedRMSpropTF",
    "NpuFusedSGD",
]
