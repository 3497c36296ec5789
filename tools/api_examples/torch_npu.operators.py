import torch

import torch_npu

x, weight = torch.randn(2, 8, 16, device="npu"), torch.ones(16, device="npu")
normal, rstd = torch_npu.npu_rms_norm(x, weight)
gated = torch_npu.npu_swiglu(x, dim=-1)
print(normal.shape, gated.shape)
