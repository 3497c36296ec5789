"""torch.distributed.nn works on npu tensors as it is; nothing is added."""
