"""torch_npu.optim: torch.optim's update rules on combined buffers, a handful of launches whatever the number of parameters."""

from torch_npu._refusal import alias_modules as _alias
from torch_npu.optim import (
    adamp as _adamp,
    base as _base,
    bert_adam as _bert_adam,
    lamb as _lamb,
    rmsprop_tf as _rmsprop_tf,
    upstream as _upstream,
)
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

# The official plugin has a file for each of these.
_alias(__name__, {
    "npu_fused_adadelta": _upstream, "npu_fused_adam": _upstream, "npu_fused_adamw": _upstream, "npu_fused_rmsprop": _upstream,
    "npu_fused_sgd": _upstream, "npu_fused_adamp": _adamp, "npu_fused_bert_adam": _bert_adam, "npu_fused_lamb": _lamb,
    "npu_fused_optim_base": _base, "npu_fused_rmsprop_tf": _rmsprop_tf,
})
