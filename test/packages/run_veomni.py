"""VeOmni: it picks the npu by itself; parallel state on hccl, a tiny model under its FSDP2, optimiser and gradient clipping."""

import os
import tempfile
from importlib.metadata import version
from pathlib import Path

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")

import torch
import torch.distributed as dist
from tiny import make_model
from transformers import AutoModelForCausalLM
from veomni.distributed.clip_grad_norm import veomni_clip_grad_norm
from veomni.distributed.parallel_state import get_parallel_state, init_parallel_state
from veomni.optim import build_lr_scheduler, build_optimizer
from veomni.utils.device import get_device_type, get_dist_comm_backend, get_torch_device

assert get_device_type() == "npu" and get_torch_device() is torch.npu and get_dist_comm_backend() == "hccl"
assert torch.npu.config.allow_internal_format is False
torch.npu.set_device(0)
dist.init_process_group(get_dist_comm_backend(), store=dist.HashStore(), rank=0, world_size=1)
init_parallel_state(dp_size=1, dp_replicate_size=1, dp_shard_size=1, dp_mode="fsdp2")
assert get_parallel_state().world_size == 1 and get_parallel_state().dp_mode == "fsdp2"

with tempfile.TemporaryDirectory() as folder:
    model = AutoModelForCausalLM.from_pretrained(make_model(Path(folder) / "model")).npu()
torch.distributed.fsdp.fully_shard(model)
optimizer = build_optimizer(model, lr=1e-2)
scheduler = build_lr_scheduler(optimizer, train_steps=4, lr=1e-2)
torch.manual_seed(0)
tokens = torch.randint(4, 200, (4, 12)).npu()
losses = []
for _ in range(4):
    loss = model(tokens, labels=tokens).loss
    loss.backward()
    norm = veomni_clip_grad_norm(model, 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
dist.destroy_process_group()
text = f"parallel state, FSDP2, its optimiser and clipping on hccl, loss {losses[0]:.3f} to {losses[-1]:.3f}"
print(f"ok: veomni {version('veomni')}: {text}")
