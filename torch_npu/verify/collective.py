"""Collectives of two ranks on two cards: `run` in the worker process, `python -m torch_npu.verify.collective RANK PORT` for each rank.

A rank prints one line of JSON: what was wrong, by name.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import torch

from torch_npu import npu
from torch_npu.verify.outcome import Outcome

RANKS, SECONDS = 2, 120


def same(actual: torch.Tensor, expected: torch.Tensor) -> str:
    if torch.allclose(actual.float().cpu(), expected.float(), rtol=1e-2):
        return ""
    return f"{actual.flatten()[:4].tolist()} where {expected.flatten()[:4].tolist()} is expected"


def checks(rank: int) -> dict[str, str]:
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    found: dict[str, str] = {}

    def tensor(dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.arange(8).to(dtype).to("npu") + rank

    base = torch.arange(8)
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64):
        x = tensor(dtype)
        dist.all_reduce(x)
        found[f"all_reduce {str(dtype).removeprefix('torch.')}"] = same(x, 2 * base + 1)
    x = tensor()
    dist.all_reduce(x, dist.ReduceOp.MAX)
    found["all_reduce max"] = same(x, base + 1)
    x = tensor()
    dist.broadcast(x, 1)
    found["broadcast"] = same(x, base + 1)
    parts = [torch.empty(8).to("npu") for _ in range(RANKS)]
    dist.all_gather(parts, tensor())
    found["all_gather"] = same(torch.cat(parts), torch.cat([base, base + 1]))
    half = torch.empty(4).to("npu")
    dist.reduce_scatter_tensor(half, tensor())
    found["reduce_scatter"] = same(half, (2 * base + 1).chunk(2)[rank])
    out = torch.empty(8).to("npu")
    dist.all_to_all_single(out, tensor())
    found["all_to_all"] = same(out, torch.cat([base.chunk(2)[rank], base.chunk(2)[rank] + 1]))
    x = tensor()
    dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
    found["send and recv"] = same(x, base)
    dist.barrier()
    torch.manual_seed(0)
    net, plain = nn.Linear(8, 4), nn.Linear(8, 4)
    plain.load_state_dict(net.state_dict())
    inputs = torch.randn(2 * RANKS, 8)
    plain(inputs).square().mean().backward()
    wrapped = DistributedDataParallel(net.to("npu"))
    wrapped(inputs.chunk(RANKS)[rank].to("npu")).square().mean().backward()
    gradient, expected = net.weight.grad, plain.weight.grad
    assert gradient is not None and expected is not None
    found["DDP gradient"] = same(gradient, expected)
    return {name: text for name, text in found.items() if text}


def rank_main(rank: int, port: int) -> None:
    import torch.distributed as dist

    npu.set_device(rank)
    dist.init_process_group("hccl", f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    wrong = checks(rank)
    dist.destroy_process_group()
    print(json.dumps(wrong))


def run(outcome: Outcome) -> None:
    if npu.device_count() < RANKS:
        outcome.note = f"needs {RANKS} cards, there are {npu.device_count()}"
        outcome.raise_to("skipped")
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch_npu.verify.collective"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with outcome.attempt("2 ranks", "float32[8] and other types"):
        ranks = [subprocess.Popen([*command, str(rank), str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=environment) for rank in range(RANKS)]
        try:
            for number, process in enumerate(ranks):
                answer, errors = process.communicate(timeout=SECONDS)
                if process.returncode:
                    outcome.problem("refused", f"rank {number} ended with {process.returncode}: {errors.strip()[-500:]}")
                    continue
                for name, text in json.loads(answer.splitlines()[-1]).items():
                    outcome.problem("wrong", f"rank {number}, {name}: {text}")
        except subprocess.TimeoutExpired:
            outcome.problem("hang", f"no answer of rank {number} in {SECONDS} s")
        finally:
            for process in ranks:
                process.kill()
                process.wait()


if __name__ == "__main__":
    rank_main(int(sys.argv[1]), int(sys.argv[2]))
