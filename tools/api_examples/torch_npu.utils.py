import torch

import torch_npu

torch_npu.utils.reset_fallback_counts()
torch.ones(3, device="npu").sum().item()
print(torch_npu.utils.fallback_counts())  # {}: nothing ran on the CPU
