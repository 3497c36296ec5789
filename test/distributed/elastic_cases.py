"""A training that goes on from its last checkpoint. Tests run it in ranks of their own, and as what torchrun starts:
`elastic_cases.py KIND FOLDER`; then rank 1 is killed in the middle of a step of the first attempt.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

STEPS, KILLED = 6, 3


class WithDDP:
    """The whole state, written by rank 0 with torch.save."""

    def __init__(self, model):
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

    def save(self, path):
        if dist.get_rank() == 0:
            torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, path)

    def load(self, path):
        state = torch.load(path, map_location="npu")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


class WithFSDP2:
    """Every rank's part, written with torch.distributed.checkpoint."""

    def __init__(self, model):
        for layer in model:
            fully_shard(layer)
        self.model = fully_shard(model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

    def save(self, path):
        dcp.save(dict(zip(("model", "optimizer"), get_state_dict(self.model, self.optimizer))), checkpoint_id=path)

    def load(self, path):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        dcp.load({"model": model, "optimizer": optimizer}, checkpoint_id=path)
        set_state_dict(self.model, self.optimizer, model_state_dict=model, optim_state_dict=optimizer)


KINDS = {"ddp": WithDDP, "fsdp2": WithFSDP2}


def train(kind, folder, killed=None):
    """Trains to the end, from the last complete checkpoint on; rank 0 writes a line with the loss of each step."""
    folder, rank = Path(folder), dist.get_rank()
    torch.manual_seed(0)
    training = KINDS[kind](torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).npu())
    done = sorted(int(path.name) for path in folder.glob("[0-9]"))
    if done:
        training.load(folder / f"checkpoint{done[-1]}")
    for step in range(done[-1] + 1 if done else 0, STEPS):
        x = torch.randn(16, 8, generator=torch.Generator().manual_seed(100 * step + rank)).npu()
        training.optimizer.zero_grad()
        loss = (training.model(x) - x.sum(1, keepdim=True)).square().mean()
        if step == killed and rank == 1:
            while not (folder / str(step - 1)).exists():  # rank 0 may still be at it, and ends with this one
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()
        training.optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        training.save(folder / f"checkpoint{step}")
        dist.barrier()
        if rank == 0:
            (folder / str(step)).write_text(json.dumps({"loss": total.item(), "resumed": bool(done)}))


def losses(folder):
    """Step -> loss, and whether it was reached after a restart."""
    return {int(path.name): json.loads(path.read_text()) for path in Path(folder).glob("[0-9]")}


def main():
    kind, folder = sys.argv[1:]
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("hccl")
    train(kind, folder, KILLED if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" else None)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
