"""DLPack: torch.utils.dlpack serves npu tensors as it is; these are its functions."""

from torch.utils.dlpack import from_dlpack as from_dlpack, to_dlpack as to_dlpack
