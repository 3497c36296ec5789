"""Two ranks of DistributedDataParallel over hccl; gradients equal those of one process on the CPU. Started by torchrun."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch_npu  # noqa: F401

rank = int(os.environ["LOCAL_RANK"])
torch.npu.set_device(rank)
dist.init_process_group("hccl")
torch.manual_seed(0)
alone = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)).npu())
model.module.load_state_dict(alone.state_dict())
data = torch.randn(12, 8, generator=torch.Generator().manual_seed(1))
optimizers = [torch.optim.SGD(net.parameters(), 0.1) for net in (alone, model)]
for _ in range(3):
    for net, batch, optimizer in zip((alone, model), (data, data.chunk(2)[rank].npu()), optimizers):
        optimizer.zero_grad()
        net(batch).square().mean().backward()
        optimizer.step()
for mine, theirs in zip(model.module.parameters(), alone.parameters()):
    torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-6)
dist.barrier()
if rank == 0:
    print(f"{dist.get_world_size()} ranks, backend {dist.get_backend()}, weights after 3 steps equal the CPU's")
dist.destroy_process_group()
