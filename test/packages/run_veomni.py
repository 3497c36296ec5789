"""VeOmni: two processes train a tiny model, built, loaded and sharded (FSDP2) by VeOmni, with the npu_ operators, on hccl."""

import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

os.environ.update(SOFTNPU_DEVICES="2", WORLD_SIZE="2", LOCAL_WORLD_SIZE="2")

import torch
import torch.distributed as dist
from transformers import Qwen3Config, Qwen3ForCausalLM

RANKS = 2
OPERATORS = ["rms_norm", "rotary_mul", "fusion_attention"]


def tokens(rank: int) -> torch.Tensor:
    return torch.randint(4, 200, (2, 12), generator=torch.Generator().manual_seed(rank))


def train(rank: int, folder: str) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
    from veomni.arguments import OpsImplementationConfig
    from veomni.distributed.clip_grad_norm import veomni_clip_grad_norm
    from veomni.distributed.parallel_state import get_parallel_state, init_parallel_state
    from veomni.distributed.torch_parallelize import build_parallelize_model
    from veomni.models import build_foundation_model
    from veomni.optim import build_lr_scheduler, build_optimizer
    from veomni.utils.device import get_device_type, get_dist_comm_backend, get_torch_device

    assert get_device_type() == "npu" and get_torch_device() is torch.npu and get_dist_comm_backend() == "hccl"
    assert torch.npu.config.allow_internal_format is False
    torch.npu.set_device(rank)
    dist.init_process_group(get_dist_comm_backend(), store=dist.FileStore(f"{folder}/store", RANKS), rank=rank, world_size=RANKS)
    init_parallel_state(dp_size=RANKS, dp_shard_size=RANKS, dp_mode="fsdp2")
    assert get_parallel_state().fsdp_enabled and get_parallel_state().fsdp_mesh.device_type == "npu"

    operators = OpsImplementationConfig()
    assert operators.rms_norm_implementation == operators.rotary_pos_emb_implementation == "npu"
    model = build_foundation_model(folder, folder, torch_dtype="float32", init_device="meta", ops_implementation=operators)
    model = build_parallelize_model(model, weights_path=folder, init_device="meta")
    assert {type(parameter.data).__name__ for parameter in model.parameters()} == {"DTensor"}
    optimizer = build_optimizer(model, lr=1e-2)
    scheduler = build_lr_scheduler(optimizer, train_steps=4, lr=1e-2)
    batch, losses = tokens(rank).npu(), []
    for _ in range(4):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            loss = model(input_ids=batch, labels=batch, use_cache=False).loss
        missing = {f"npu::npu_{name}" for name in OPERATORS} - {event.key for event in profile.key_averages()}
        assert not missing, f"not called: {missing}"
        loss.backward()
        veomni_clip_grad_norm(model, 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    torch.save(losses, f"{folder}/losses{rank}.pt")
    dist.destroy_process_group()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        config = Qwen3Config(
            vocab_size=256, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=8, initializer_range=0.3,
        )  # fmt: skip
        reference = Qwen3ForCausalLM(config)
        reference.save_pretrained(folder)
        torch.multiprocessing.spawn(train, (folder,), nprocs=RANKS)
        for rank in range(RANKS):
            losses = torch.load(Path(folder) / f"losses{rank}.pt")
            expected = reference(tokens(rank), labels=tokens(rank)).loss.item()
            if abs(losses[0] - expected) > 0.03 or losses[-1] >= losses[0]:
                sys.exit(f"rank {rank}: losses {losses}, the CPU's first {expected}")
    text = f"{RANKS} ranks, its FSDP2 in bfloat16, npu_ operators, optimiser and clipping on hccl, loss {losses[0]:.3f} to {losses[-1]:.3f}"
    print(f"ok: veomni {version('veomni')}: {text}")


if __name__ == "__main__":
    main()
