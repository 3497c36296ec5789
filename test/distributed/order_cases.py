"""What ranks do in test_order.py: collectives and messages that nothing but the group itself keeps in order."""

import torch
import torch.distributed as dist


def overlapping_collectives(rounds=20):
    """Some are waited for at once, some later, some on another stream."""
    side = torch.npu.Stream()
    results = []
    for i in range(rounds):
        first, second, third = (torch.full((1000,), float(i + k), device="npu") for k in range(3))
        work = dist.all_reduce(first, async_op=True)
        dist.all_reduce(second)
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            dist.all_reduce(third)
        torch.npu.current_stream().wait_stream(side)
        work.wait()
        results.append([t[0].item() for t in (first, second, third)])
    return results


def crossing_messages(rounds=10):
    """Both ranks send before they receive, alone and in a batch."""
    other = 1 - dist.get_rank()
    results = []
    for i in range(rounds):
        mine, got, batched = torch.full((1000,), float(i + other), device="npu"), torch.empty(1000).npu(), torch.empty(1000).npu()
        works = [dist.isend(mine, other), dist.irecv(got, other)]
        works += dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, other), dist.P2POp(dist.irecv, batched, other)])
        for work in works:
            work.wait()
        results.append([got[0].item(), batched[0].item()])
    return results
