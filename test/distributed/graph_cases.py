"""What ranks do in test_captured_collectives.py."""

import torch
import torch.distributed as dist


def captured(rounds=3):
    """In a graph: a collective that is waited for at once, one that is waited for later, a message; eager ones between replays."""
    rank, other = dist.get_rank(), 1 - dist.get_rank()
    x, got = torch.zeros(5, device="npu"), torch.zeros(5, device="npu")
    dist.all_reduce(torch.ones(1, device="npu"))  # the communicator is made outside of the capture
    dist.batch_isend_irecv([dist.P2POp(dist.isend, x, other), dist.P2POp(dist.irecv, got, other)])[0].wait()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = x * 2
        dist.all_reduce(y)
        z = y + 1
        work = dist.all_reduce(z, async_op=True)
        work.wait()
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, z, other), dist.P2POp(dist.irecv, got, other)]):
            work.wait()
        sent = z + rank
    results = []
    for i in range(rounds):
        x.fill_(float(rank + i))
        graph.replay()
        eager = torch.full((3,), float(i), device="npu")
        dist.all_reduce(eager)
        results.append([t[0].item() for t in (y, z, got, sent, eager)])
    return results
