"""torch.distributed.rpc carries CPU tensors; there is no transport for npu tensors (docs/distributed.md)."""
