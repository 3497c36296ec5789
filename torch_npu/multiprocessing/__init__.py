"""npu tensors between processes: reductions.py is what torch.multiprocessing pickles them with."""

from torch_npu.multiprocessing import reductions

__all__ = ["reductions"]
