"""fully_shard for npu: upstream's, which needs nothing more."""

from torch.distributed.fsdp import fully_shard

__all__ = ["fully_shard"]
