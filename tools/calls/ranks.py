"""Collectives between two ranks, of which the first is recorded: programs.py runs this for "ranks:TYPE".

Usage: python ranks.py TYPE. Each collective stands between two marks, as in programs.py. DDP's step is part of the run with float32.
"""

import os
import subprocess
import sys
import tempfile

import programs
import torch
import torch.distributed as dist
from programs import region
from torch.nn.parallel import DistributedDataParallel

REDUCTIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX")


def run(label, body):
    """The other rank does the same, unseen."""
    with region(f"ranks:{label}|0|forward", []):
        body()


def reductions(dtype, name):
    for reduction in REDUCTIONS:
        op = getattr(dist.ReduceOp, reduction)
        x = torch.ones(8, dtype=dtype).npu()
        out = torch.empty(4, dtype=dtype).npu()
        run(f"all_reduce:{reduction}:{name}", lambda x=x, op=op: dist.all_reduce(x, op))
        run(f"reduce:{reduction}:{name}", lambda x=x, op=op: dist.reduce(x, 0, op))
        run(f"reduce_scatter_tensor:{reduction}:{name}", lambda x=x, op=op, out=out: dist.reduce_scatter_tensor(out, x, op))
        run(f"reduce_scatter:{reduction}:{name}", lambda x=x, op=op, out=out: dist.reduce_scatter(out, list(x.chunk(2)), op))


def exchanges(dtype, name, rank):
    x, out = torch.ones(8, dtype=dtype).npu(), torch.empty(16, dtype=dtype).npu()
    halves = lambda t: list(t.chunk(2))  # noqa: E731
    run(f"broadcast:{name}", lambda: dist.broadcast(x, 0))
    run(f"all_gather_into_tensor:{name}", lambda: dist.all_gather_into_tensor(out, x))
    run(f"all_gather:{name}", lambda: dist.all_gather(halves(out), x))
    run(f"all_gather, other sizes:{name}", lambda: dist.all_gather([x[:3].clone(), x[:5].clone()], x[:3 if rank == 0 else 5].clone()))
    run(f"gather:{name}", lambda: dist.gather(x, halves(out) if rank == 0 else None, 0))
    run(f"scatter:{name}", lambda: dist.scatter(x, halves(out) if rank == 0 else None, 0))
    run(f"all_to_all_single:{name}", lambda: dist.all_to_all_single(torch.empty_like(x), x))
    run(f"all_to_all_single, splits:{name}", lambda: dist.all_to_all_single(torch.empty_like(x), x, [4, 4], [4, 4]))
    run(f"all_to_all:{name}", lambda: dist.all_to_all(halves(out), [x.clone(), x.clone()]))
    run(f"send:{name}", lambda: dist.send(x, 1) if rank == 0 else dist.recv(x, 0))
    run(f"recv:{name}", lambda: dist.recv(x, 1) if rank == 0 else dist.send(x, 0))
    both = [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, torch.empty_like(x), 1 - rank)]
    run(f"batch_isend_irecv:{name}", lambda: [work.wait() for work in dist.batch_isend_irecv(both)])


def training(rank):
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).npu()
    net = DistributedDataParallel(net, device_ids=[rank])
    x = torch.ones(4, 8).npu()
    for step in range(2):
        loss = []
        run(f"ddp forward {step}", lambda loss=loss: loss.append(net(x).square().mean()))
        run(f"ddp backward {step}", lambda loss=loss: loss[0].backward())


def main():
    rank, store, name = int(os.environ["RANK"]), os.environ["CALLS_STORE"], sys.argv[1]
    torch.npu.set_device(rank)
    programs.DEVICE.softnpu_record(None)
    dist.init_process_group("hccl", init_method=f"file://{store}", rank=rank, world_size=2)
    dist.all_reduce(torch.ones(1).npu())
    reductions(getattr(torch, name), name)
    exchanges(getattr(torch, name), name, rank)
    if name == "float32":
        run("barrier", dist.barrier)
        training(rank)
    torch.npu.synchronize()
    os._exit(0)


def spawn(name):
    """Both ranks as processes; True if they ended well."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(2):
            environment = {**os.environ, "RANK": str(rank), "CALLS_STORE": f"{folder}/store"}
            if rank:
                del environment["SOFTNPU_RECORD"]
            ranks.append(subprocess.Popen([sys.executable, __file__, name], env=environment))
        codes = [rank.wait() for rank in ranks]
        return not any(codes)


if __name__ == "__main__":
    main()
