"""Products fused with collectives against the parts on the CPU. Runs in the ranks."""

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode

NPU = torch.ops.npu
TOLERANCE = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 8e-2}


def name(group=None):
    backend = (group or dist.group.WORLD)._get_backend(torch.device("npu"))
    return backend.get_hccl_comm_name(torch.npu.current_device())


def message_of(call):
    """What a call says when it is refused, from itself or when the card reports; empty if it is not."""
    try:
        call()
        torch.npu.synchronize()
        return ""
    except (RuntimeError, NotImplementedError) as error:
        return str(error)


def made(*shape, rank, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(100 * seed + rank)).to(dtype)


def every(function):
    return [function(rank) for rank in range(dist.get_world_size())]


def close(actual, expected, dtype):
    assert actual.device.type == "npu" and actual.dtype == dtype
    torch.testing.assert_close(actual.cpu().float(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def mm_all_reduce():
    """bias and x3 are part of each rank's product."""
    rank = dist.get_rank()
    for dtype in TOLERANCE:
        for shape in ((6, 8), (2, 3, 8)):
            x1, x2 = (every(lambda r, s=s: made(*s, rank=r, dtype=dtype)) for s in (shape, (8, 5)))
            x3, bias = made(*shape[:-1], 5, rank=0, seed=1, dtype=dtype), made(5, rank=0, seed=2, dtype=dtype)
            plain = sum(a.float() @ b.float() for a, b in zip(x1, x2))
            close(NPU.npu_mm_all_reduce_base(x1[rank].npu(), x2[rank].npu(), name()), plain, dtype)
            close(NPU.npu_mm_all_reduce_base(x1[rank].npu(), x2[rank].npu(), name(), bias=bias.npu(), x3=x3.npu()),
                  plain + dist.get_world_size() * (x3.float() + bias.float()), dtype)


def all_gather_mm():
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in TOLERANCE:
        x, w = every(lambda r: made(4, 6, rank=r, dtype=dtype)), made(6, 3, rank=0, seed=1, dtype=dtype)
        strided = x[rank].npu().t().contiguous().t()
        for mine in (x[rank].npu(), strided):
            out, gathered = NPU.npu_all_gather_base_mm(mine, w.npu(), name(), size)
            close(out, torch.cat(x).float() @ w.float(), dtype)
            assert torch.equal(gathered.cpu(), torch.cat(x))
        out, gathered = NPU.npu_all_gather_base_mm(x[rank].npu(), w.npu(), name(), size, gather_output=False)
        assert gathered.numel() == 0
        close(out, torch.cat(x).float() @ w.float(), dtype)


def mm_reduce_scatter():
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in TOLERANCE:
        x, w = every(lambda r: made(3 * size, 6, rank=r, dtype=dtype)), every(lambda r: made(6, 5, rank=r, seed=1, dtype=dtype))
        bias = made(5, rank=0, seed=2, dtype=dtype)
        expected = sum(a.float() @ b.float() for a, b in zip(x, w)) + size * bias.float()
        out = NPU.npu_mm_reduce_scatter_base(x[rank].npu(), w[rank].npu().t().contiguous().t(), name(), size, bias=bias.npu())
        close(out, expected[3 * rank : 3 * rank + 3], dtype)


def alltoallv_gmm():
    """Rank r sends sent[r][p][e] rows to expert e of rank p."""
    rank, size, experts = dist.get_rank(), dist.get_world_size(), 3
    sent = torch.randint(0, 4, (size, size, experts), generator=torch.Generator().manual_seed(3))
    sent[0, -1, 1] = 0
    for dtype in TOLERANCE:
        x = every(lambda r: made(int(sent[r].sum()), 6, rank=r, dtype=dtype))
        w, mm_x, mm_w = (made(*s, rank=rank, seed=n, dtype=dtype) for n, s in enumerate([(experts, 6, 5), (4, 7), (7, 2)], 1))
        parts = [each.split(sent[r].flatten().tolist()) for r, each in enumerate(x)]
        mine = [[parts[r][rank * experts + e] for r in range(size)] for e in range(experts)]  # by expert, then by rank
        rows = torch.cat([part for each in mine for part in each])
        expected = torch.cat([torch.cat(each).float() @ w[e].float() for e, each in enumerate(mine)])
        counts = (sent[rank].flatten().tolist(), sent[:, rank].flatten().tolist())
        out, extra, permuted = NPU.npu_alltoallv_gmm(x[rank].npu(), w.npu(), name(), size, *counts, mm_x=mm_x.npu(), mm_weight=mm_w.npu(),
                                                     permute_out_flag=True)
        close(out, expected, dtype)
        close(extra, mm_x.float() @ mm_w.float(), dtype)
        assert torch.equal(permuted.cpu(), rows)
        turned = w.npu().transpose(1, 2).contiguous()
        out, *others = NPU.npu_alltoallv_gmm(x[rank].npu(), turned, name(), size, *counts, trans_gmm_weight=True)
        close(out, expected, dtype)
        assert others == [None, None]
        turned = mm_w.t().contiguous().npu()
        _, extra, _ = NPU.npu_alltoallv_gmm(x[rank].npu(), w.npu(), name(), size, *counts, mm_x=mm_x.npu(), mm_weight=turned,
                                            trans_mm_weight=True)
        close(extra, mm_x.float() @ mm_w.float(), dtype)


def in_order_with_other_work():
    """Behind what stands before them on the stream and before what follows; other collectives of the group in between."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.full((64, 64), 1.0 + rank).npu()
    for step in range(20):
        x.fill_(rank + step)
        y = NPU.npu_mm_all_reduce_base(x, torch.eye(64).npu(), name())
        dist.all_reduce(z := y.clone())
        out, _ = NPU.npu_all_gather_base_mm(z, torch.eye(64).npu(), name(), size)
        total = sum(r + step for r in range(size))
        assert (y == total).all() and (out == total * size).all()


def subgroup():
    """A communicator is found by its name: that of a part of the ranks."""
    for members in ([0], list(range(dist.get_world_size()))[::-1]):
        group = dist.new_group(members)
        if dist.get_rank() in members:
            out = NPU.npu_mm_all_reduce_base(torch.ones(2, 2).npu(), torch.eye(2).npu(), name(group))
            assert (out == len(members)).all()


def shapes_without_a_card():
    with FakeTensorMode():
        x, w = torch.empty(8, 6, device="npu"), torch.empty(6, 3, device="npu")
        assert NPU.npu_mm_all_reduce_base(x, w, "any").shape == (8, 3)
        assert [t.shape for t in NPU.npu_all_gather_base_mm(x, w, "any", 2)] == [(16, 3), (16, 6)]
        assert NPU.npu_mm_reduce_scatter_base(x, w, "any", 2).shape == (4, 3)


def refused():
    x, w = torch.ones(4, 6).npu(), torch.ones(6, 3).npu()
    size = dist.get_world_size()
    calls = [
        lambda: NPU.npu_mm_all_reduce_base(x, w, "nobody"),
        lambda: NPU.npu_mm_all_reduce_base(x, w, name(), reduce_op="max"),
        lambda: NPU.npu_mm_all_reduce_base(x, w, name(), dequant_scale=w),
        lambda: NPU.npu_mm_all_reduce_base(x, x, name()),
        lambda: NPU.npu_all_gather_base_mm(x, w, name(), size + 1),
        lambda: NPU.npu_all_gather_base_mm(x, w, name(), size, gather_index=1),
        lambda: NPU.npu_mm_reduce_scatter_base(x, w, name(), 3),
        lambda: NPU.npu_mm_reduce_scatter_base(x, w, name(), 1) if size > 1 else NPU.npu_mm_all_reduce_base(x, w, "nobody"),
    ]
    messages = [message_of(call) for call in calls]
    assert (NPU.npu_mm_all_reduce_base(x, w, name()) == 6 * size).all()  # the group still works
    return messages
