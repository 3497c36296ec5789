"""What ranks.py runs in the ranks: one collective of one type, against gloo on the CPU (`host` below)."""

import torch
import torch.distributed as dist
from collective_cases import REDUCTIONS, averaged, equal, make, reference

SIZE = 13


def ranks():
    return dist.get_rank(), dist.get_world_size()


def everyone(dtype):
    return [make(dtype, SIZE, rank=i) for i in range(ranks()[1])]


def same(found, expected):
    assert len(found) == len(expected) and all(torch.equal(a.cpu(), b) for a, b in zip(found, expected)), (found, expected)


# Reductions, of every kind that the client takes.


def reduced(dtype, function, size=SIZE):
    """`function(tensor, kind)` gives what this rank gets, or None, of the total of all ranks, or its share."""
    for name in REDUCTIONS:
        if name == "AVG" and not dtype.is_floating_point:
            continue
        op, (host_op, wide) = getattr(dist.ReduceOp, name), reference(name, dtype)
        x = make(dtype, size)
        total = x.to(wide, copy=True)
        dist.all_reduce(total, host_op)
        found = function(x.npu(), op)
        if found is not None:
            expected = averaged(total, name)
            equal(found, expected if found.numel() == size else expected.chunk(ranks()[1])[ranks()[0]], name)


def all_reduce(dtype):
    def call(x, op):
        dist.all_reduce(x, op)
        return x

    reduced(dtype, call)


def all_reduce_async(dtype):
    def call(x, op):
        dist.all_reduce(x, op, async_op=True).wait()
        return x

    reduced(dtype, call)


def all_reduce_coalesced(dtype):
    def call(x, op):
        parts = [x[:5].clone(), x[5:].clone()]
        with dist._coalescing_manager(device=torch.device("npu", torch.npu.current_device())):
            for part in parts:
                dist.all_reduce(part, op)
        return torch.cat(parts)

    reduced(dtype, call)


def reduce(dtype):
    def call(x, op):
        dist.reduce(x, 1, op)
        return x if ranks()[0] == 1 else None

    reduced(dtype, call)


def reduce_scatter_tensor(dtype):
    def call(x, op):
        y = x.new_empty(SIZE)
        dist.reduce_scatter_tensor(y, x, op)
        return y

    reduced(dtype, call, SIZE * ranks()[1])


def reduce_scatter(dtype):
    def call(x, op):
        y = x.new_empty(SIZE)
        dist.reduce_scatter(y, [part.clone() for part in x.chunk(ranks()[1])], op)
        return y

    reduced(dtype, call, SIZE * ranks()[1])


# Movements.


def broadcast(dtype):
    for root in (0, ranks()[1] - 1):
        y = make(dtype, SIZE).npu()
        dist.broadcast(y, root)
        same([y], [everyone(dtype)[root]])


def all_gather(dtype):
    outputs = [torch.empty(SIZE, dtype=dtype, device="npu") for _ in range(ranks()[1])]
    dist.all_gather(outputs, make(dtype, SIZE).npu())
    same(outputs, everyone(dtype))


def all_gather_uneven(dtype):
    rank, count = ranks()
    outputs = [torch.empty(i + 1, dtype=dtype, device="npu") for i in range(count)]
    dist.all_gather(outputs, make(dtype, SIZE).npu()[: rank + 1].clone())
    same(outputs, [x[: i + 1] for i, x in enumerate(everyone(dtype))])


def all_gather_into_tensor(dtype):
    y = torch.empty(SIZE * ranks()[1], dtype=dtype, device="npu")
    dist.all_gather_into_tensor(y, make(dtype, SIZE).npu())
    same([y], [torch.cat(everyone(dtype))])


def gather(dtype):
    rank, count = ranks()
    outputs = [torch.empty(SIZE, dtype=dtype, device="npu") for _ in range(count)] if rank == 0 else None
    dist.gather(make(dtype, SIZE).npu(), outputs, dst=0)
    if rank == 0:
        same(outputs, everyone(dtype))


def scatter(dtype):
    rank, _ = ranks()
    y = torch.empty(SIZE, dtype=dtype, device="npu")
    dist.scatter(y, [x.npu() for x in everyone(dtype)] if rank == 0 else None, src=0)
    same([y], [everyone(dtype)[rank]])


def all_to_all_single(dtype):
    rank, count = ranks()
    y = torch.empty(2 * count, dtype=dtype, device="npu")
    dist.all_to_all_single(y, make(dtype, 2 * count).npu())
    same([y], [torch.cat([make(dtype, 2 * count, rank=i)[2 * rank : 2 * rank + 2] for i in range(count)])])


def all_to_all_single_uneven(dtype):
    """Rank i sends j + 1 elements to rank j."""
    rank, count = ranks()
    splits = list(range(1, count + 1))
    y = torch.empty((rank + 1) * count, dtype=dtype, device="npu")
    dist.all_to_all_single(y, make(dtype, sum(splits)).npu(), [rank + 1] * count, splits)
    same([y], [torch.cat([make(dtype, sum(splits), rank=i).split(splits)[rank] for i in range(count)])])


def all_to_all(dtype):
    rank, count = ranks()
    outputs = [torch.empty(SIZE, dtype=dtype, device="npu") for _ in range(count)]
    dist.all_to_all(outputs, [x.npu() for x in everyone(dtype)])
    same(outputs, [make(dtype, SIZE, rank=rank)] * count)


def send_and_recv(dtype):
    rank, count = ranks()
    y = torch.empty(SIZE, dtype=dtype, device="npu")
    calls = [lambda: dist.send(make(dtype, SIZE).npu(), (rank + 1) % count), lambda: dist.recv(y, (rank - 1) % count)]
    for call in calls if rank % 2 == 0 else reversed(calls):
        call()
    same([y], [everyone(dtype)[(rank - 1) % count]])


def batch_isend_irecv(dtype):
    rank, count = ranks()
    y = torch.empty(SIZE, dtype=dtype, device="npu")
    operations = [dist.P2POp(dist.isend, make(dtype, SIZE).npu(), (rank + 1) % count), dist.P2POp(dist.irecv, y, (rank - 1) % count)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    same([y], [everyone(dtype)[(rank - 1) % count]])


# Without a type.


def barrier():
    import time

    rank, _ = ranks()
    start = time.monotonic()
    time.sleep(0.3 * (rank == 0))
    dist.barrier()
    assert time.monotonic() - start > 0.25


def object_list_is_broadcast():
    given = [{"a": 1}, "text", None] if ranks()[0] == 0 else [None] * 3
    dist.broadcast_object_list(given, 0)
    assert given == [{"a": 1}, "text", None]


def objects_are_gathered():
    rank, count = ranks()
    found = [None] * count
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank * 100})
    assert [each["rank"] for each in found] == list(range(count)) and len(found[-1]["text"]) == 100 * (count - 1)


def objects_are_scattered():
    rank, count = ranks()
    found = [None]
    dist.scatter_object_list(found, [f"for {i}" for i in range(count)] if rank == 0 else None, src=0)
    assert found == [f"for {rank}"]


def objects_are_sent():
    rank, _ = ranks()
    if rank == 0:
        dist.send_object_list(["a", 2], 1)
    elif rank == 1:
        found = [None, None]
        dist.recv_object_list(found, 0)
        assert found == ["a", 2]


def subgroup_reduces_alone():
    rank, _ = ranks()
    group = dist.new_group([0, 1])
    x = torch.full((4,), rank + 1.0).npu()
    if rank < 2:
        dist.all_reduce(x, group=group)
        assert x.tolist() == [3] * 4
    else:
        assert dist.get_rank(group) == -1


def a_group_is_named():
    from torch.distributed.distributed_c10d import _get_default_group

    backend = _get_default_group()._get_backend(torch.device("npu"))
    name = backend.get_hccl_comm_name(ranks()[0])
    assert name and name == backend.get_hccl_comm_name(ranks()[0])


def a_backend_is_hccl():
    assert dist.is_hccl_available() and "hccl" in dist.get_backend_config() and dist.is_initialized()


def bitwise_reductions_are_refused():
    for name in ("BAND", "BOR", "BXOR"):
        try:
            dist.all_reduce(torch.ones(2, dtype=torch.int32).npu(), getattr(dist.ReduceOp, name))
        except (RuntimeError, ValueError) as error:
            assert name in str(error), error
        else:
            raise AssertionError(name)


def tensors_of_the_cpu_go_to_gloo():
    x = torch.ones(3)
    dist.all_reduce(x)
    assert x.tolist() == [ranks()[1]] * 3


def a_mesh_of_all():
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("npu", (ranks()[1],))
    x = torch.ones(2).npu()
    dist.all_reduce(x, group=mesh.get_group())
    assert x.tolist() == [ranks()[1]] * 2 and mesh.get_local_rank() == ranks()[0]


def functional_collectives():
    import torch.distributed._functional_collectives as collectives

    rank, count = ranks()
    x = torch.full((4,), rank + 1.0).npu()
    assert collectives.all_reduce(x, "sum", dist.group.WORLD).tolist() == [count * (count + 1) / 2] * 4
    assert collectives.all_gather_tensor(x, 0, dist.group.WORLD).shape == (4 * count,)
    assert collectives.reduce_scatter_tensor(torch.ones(count).npu(), "sum", 0, dist.group.WORLD).tolist() == [count]


def collectives_are_in_the_order_of_their_stream():
    x, side = torch.ones(1 << 16).npu(), torch.npu.Stream()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        y = x * 2
        dist.all_reduce(y)
        z = y + 1
    side.synchronize()
    assert (z == 2 * ranks()[1] + 1).all().item()


def a_future_of_a_collective():
    x = torch.ones(8).npu()
    work = dist.all_reduce(x, async_op=True)
    value = work.get_future().then(lambda f: f.value()[0] * 2).wait()
    assert value.tolist() == [2 * ranks()[1]] * 8


def gradients_of_a_gather():
    from torch.distributed.nn.functional import all_reduce

    x = torch.ones(3).npu().requires_grad_()
    (all_reduce(x * 1) * (ranks()[0] + 1)).sum().backward()
    count = ranks()[1]
    assert x.grad.tolist() == [count * (count + 1) / 2] * 3
