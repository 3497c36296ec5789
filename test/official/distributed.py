"""Two ranks of the official client over softnpu's HCCL: collectives with their results, DDP against one process."""

import os
import socket
import subprocess
import sys

RANK = """
import os, torch, torch_npu, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
rank = int(os.environ["RANK"])
torch.npu.set_device(rank)
dist.init_process_group("hccl")
x = torch.full((1000,), rank + 1.0).npu()
dist.all_reduce(x)
assert (x.cpu() == 3).all(), x
dist.all_reduce(x, dist.ReduceOp.AVG)
assert (x.cpu() == 3).all(), x
y = torch.full((3,), float(rank)).npu()
dist.broadcast(y, 1)
assert (y.cpu() == 1).all(), y
parts = [torch.empty(2).npu() for _ in range(2)]
dist.all_gather(parts, torch.full((2,), float(rank)).npu())
assert [p.cpu().tolist() for p in parts] == [[0, 0], [1, 1]], parts
z = torch.empty(2).npu()
dist.reduce_scatter_tensor(z, torch.arange(4.0).npu())
assert z.cpu().tolist() == [[0, 2], [4, 6]][rank], z
w = torch.empty(4).npu()
dist.all_to_all_single(w, torch.full((4,), float(rank)).npu())
assert w.cpu().tolist() == [0, 0, 1, 1], w
if rank == 0:
    dist.send(x, 1)
else:
    dist.recv(x, 0)
dist.barrier()
torch.manual_seed(0)
alone = torch.nn.Linear(4, 2)
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 2).npu(), device_ids=[rank])
data = torch.arange(32.0).reshape(8, 4) / 10
for net, batch in ((alone, data), (model, data.chunk(2)[rank].npu())):
    net(batch).square().mean().backward()
assert torch.allclose(model.module.weight.grad.cpu(), alone.weight.grad, rtol=1e-5)
dist.destroy_process_group()
print("done")
"""


def check_two_ranks():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK],
            env={**common, "RANK": str(rank)},
            cwd=os.sep,  # where no torch_npu of a checkout is found first
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=240)[0] for rank in ranks]
    assert all("done" in output for output in outputs), "\n".join(outputs)
