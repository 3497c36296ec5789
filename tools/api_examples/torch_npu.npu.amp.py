import torch
from torch.npu.amp import GradScaler, autocast

model = torch.nn.Linear(8, 8).npu()
optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), GradScaler()
for _ in range(3):
    with autocast():
        loss = model(torch.randn(4, 8, device="npu")).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
