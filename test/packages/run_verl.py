"""verl: it picks the npu by itself; advantages and a policy-loss step of a tiny FSDP2 model, with its profiler marks, run there."""

import os
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch
import torch.distributed as dist

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")

from tiny import make_model
from transformers import AutoModelForCausalLM
from verl.trainer.ppo import core_algos
from verl.utils.device import get_device_name, get_nccl_backend, get_torch_device, is_npu_available
from verl.utils.fsdp_utils import fsdp2_clip_grad_norm_
from verl.utils.profiler import mstx_profile
from verl.utils.torch_functional import logprobs_from_logits

assert is_npu_available and get_device_name() == "npu" and get_torch_device() is torch.npu and get_nccl_backend() == "hccl"
assert mstx_profile is not None
torch.npu.set_device(0)
dist.init_process_group(get_nccl_backend(), store=dist.HashStore(), rank=0, world_size=1)
with tempfile.TemporaryDirectory() as folder:
    model = AutoModelForCausalLM.from_pretrained(make_model(Path(folder) / "model")).npu()
torch.distributed.fsdp.fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

torch.manual_seed(0)
tokens = torch.randint(4, 200, (4, 12)).npu()
mask = torch.ones(4, 11, device="npu")
rewards = torch.zeros(4, 11, device="npu").index_fill_(1, torch.tensor([10], device="npu"), 1.0) * torch.arange(4.0, device="npu")[:, None]
advantages, _ = core_algos.compute_grpo_outcome_advantage(rewards, mask, index=["a", "a", "b", "b"])
assert advantages.is_npu and torch.isfinite(advantages).all()


def log_probabilities():
    return logprobs_from_logits(model(tokens).logits[:, :-1].float(), tokens[:, 1:])


with torch.no_grad():
    old = log_probabilities()
losses = []
for _ in range(3):
    mark = torch.npu.mstx.range_start("update_actor")
    loss, *_ = core_algos.compute_policy_loss(old, log_probabilities(), advantages, mask, cliprange=0.2)
    loss.backward()
    norm = fsdp2_clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    torch.npu.mstx.range_end(mark)
    losses.append(loss.item())
assert losses[-1] < losses[0] and torch.isfinite(norm), losses
dist.destroy_process_group()
print(f"ok: verl {version('verl')}: GRPO advantages, 3 policy steps of an FSDP2 model on hccl, loss {losses[0]:.4f} to {losses[-1]:.4f}")
