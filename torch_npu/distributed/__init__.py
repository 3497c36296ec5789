"""torch_npu.distributed: what HCCL has beyond torch.distributed, which runs on npu tensors with the backend "hccl"."""

from torch_npu.distributed.distributed_c10d import is_hccl_available, reinit_process_group
from torch_npu.distributed.uneven import all_gather_into_tensor_uneven, all_to_all_vc, reduce_scatter_tensor_uneven

__all__ = [
    "all_gather_into_tensor_uneven",
    "all_to_all_vc",
    "is_hccl_available",
    "reduce_scatter_tensor_uneven",
    "reinit_process_group",
]


def is_available() -> bool:
    """Whether there is an npu for the backend "hccl". Touches no card."""
    import torch

    from torch_npu import npu

    return torch.distributed.is_available() and npu.is_available()


def __getattr__(name: str):
    if name in ("fsdp", "nn", "pipelining", "rendezvous", "rpc", "run", "tensor"):
        from importlib import import_module

        return import_module(f"torch_npu.distributed.{name}")
    if name == "ParallelStore":
        from torch_npu.distributed.rendezvous import ParallelStore

        return ParallelStore
    raise AttributeError(f"module 'torch_npu.distributed' has no attribute '{name}'")
