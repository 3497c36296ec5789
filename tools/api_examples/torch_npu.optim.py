import torch

import torch_npu

model = torch.nn.Linear(8, 8).npu()
optimizer = torch_npu.optim.NpuFusedAdamW(model.parameters(), lr=1e-3)
model(torch.randn(4, 8, device="npu")).sum().backward()
optimizer.clip_grad_norm_fused_(1.0)
optimizer.step()
