"""Every collective of torch.distributed on npu tensors against gloo on CPU tensors. Runs in the ranks."""

import itertools
import math
import threading
import time

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
DTYPES = (*FLOATS, *INTEGERS, torch.bool)
SIZES = (0, 1, 13, 1024, 70001)
PERIOD = 100003  # a prime: large tensors repeat themselves, but not from block to block
REDUCTIONS = ("SUM", "PRODUCT", "MIN", "MAX", "AVG")
# Functions of this file that need no argument, for any number of ranks.
CASES = [
    "wrapping_integers",
    "complex_sum",
    "premul_sum",
    "average_of_large_halves",
    "uneven",
    "coalesced",
    "coalesced_with_transfers",
    "subgroups",
    "objects",
    "async_work",
    "future_of_a_late_collective",
    "groups_on_two_streams",
    "functional",
    "memory_formats",
    "unseen_by_autograd",
    "refused_arguments",
    "to_itself",
    "memory_afterwards",
]


def make(dtype, *shape, seed=0, rank=None):
    """The same on every run, different on every rank; small integers, so that sums are exact in every type."""
    rank = dist.get_rank() if rank is None else rank
    if dtype.is_complex:
        part = torch.float32 if dtype == torch.complex64 else torch.float64
        return torch.complex(make(part, *shape, seed=seed, rank=rank), make(part, *shape, seed=seed + 1, rank=rank))
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    elements = math.prod(shape)
    values = torch.randint(0, 2 if dtype == torch.bool else 3, (min(elements, PERIOD),), generator=generator).to(dtype)
    return values.repeat(-(-elements // PERIOD))[:elements].reshape(shape) if elements > PERIOD else values.reshape(shape)


def reference(op, dtype):
    """What gloo can do exactly: it lacks some types, which are reduced in a wider one."""
    wider = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.bool: torch.uint8, torch.int16: torch.int32}
    wide = wider.get(dtype, dtype)
    narrow = {("SUM", torch.bool): "MAX", ("PRODUCT", torch.bool): "MIN"}.get((op, dtype), op)
    return getattr(ReduceOp, "SUM" if narrow == "AVG" else narrow), wide


def averaged(total, op):
    if op != "AVG":
        return total
    size = dist.get_world_size()
    return total / size if total.is_floating_point() else torch.div(total, size, rounding_mode="trunc")


def equal(got, expected, what):
    got, expected = got.cpu(), expected.to(got.dtype)
    if torch.equal(got, expected):
        return
    tolerance = 1e-3 if got.dtype in FLOATS[:2] else 1e-6
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=0, msg=lambda m: f"{what}: {m}")


def reductions(dtype, size):
    ranks = dist.get_world_size()
    for name in REDUCTIONS:
        if name == "AVG" and dtype == torch.bool:
            continue
        op, (host_op, wide) = getattr(ReduceOp, name), reference(name, dtype)
        what = f"{name} {dtype} {size}"
        x = make(dtype, size)
        expected = x.to(wide, copy=True)
        dist.all_reduce(expected, host_op)
        y = x.npu()
        dist.all_reduce(y, op)
        equal(y, averaged(expected, name), f"all_reduce {what}")
        y = x.npu()
        work = dist.all_reduce(y, op, async_op=True)
        work.wait()
        equal(y, averaged(expected, name), f"all_reduce async {what}")

        y = x.npu()
        dist.reduce(y, ranks - 1, op)
        if dist.get_rank() == ranks - 1:
            equal(y, averaged(expected, name), f"reduce {what}")

        x = make(dtype, ranks * size, seed=1)
        total = x.to(wide, copy=True)
        dist.all_reduce(total, host_op)
        mine = averaged(total, name)[dist.get_rank() * size : (dist.get_rank() + 1) * size]
        y = torch.empty(size, dtype=dtype, device="npu")
        dist.reduce_scatter_single(y, x.npu(), op)
        equal(y, mine, f"reduce_scatter_tensor {what}")
        y = torch.empty(size, dtype=dtype, device="npu")
        dist.reduce_scatter(y, list(x.npu().chunk(ranks)) if size else [x.npu()] * ranks, op)
        equal(y, mine, f"reduce_scatter {what}")


def movements(dtype, size):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    everyone = [make(dtype, size, rank=i) for i in range(ranks)]
    x = everyone[rank]
    for root in (0, ranks - 1):
        y = x.npu()
        dist.broadcast(y, root)
        assert torch.equal(y.cpu(), everyone[root]), f"broadcast {dtype} {size}"
        parts = [torch.empty_like(x).npu() for _ in range(ranks)] if rank == root else None
        dist.gather(x.npu(), parts, dst=root)
        if rank == root:
            assert all(torch.equal(a.cpu(), b) for a, b in zip(parts, everyone)), f"gather {dtype} {size}"
        y = torch.empty_like(x).npu()
        parts = [everyone[i].npu() for i in range(ranks)] if rank == root else None
        dist.scatter(y, parts, src=root)
        assert torch.equal(y.cpu(), x), f"scatter {dtype} {size}"
    outputs = [torch.empty_like(x).npu() for _ in range(ranks)]
    dist.all_gather(outputs, x.npu())
    assert all(torch.equal(a.cpu(), b) for a, b in zip(outputs, everyone)), f"all_gather {dtype} {size}"
    y = torch.empty(ranks * size, dtype=dtype, device="npu")
    dist.all_gather_single(y, x.npu())
    assert torch.equal(y.cpu(), torch.cat(everyone)), f"all_gather_into_tensor {dtype} {size}"
    wide = torch.cat([x] * ranks)
    y = torch.empty_like(wide).npu()
    dist.all_to_all_single(y, wide.npu())
    assert torch.equal(y.cpu(), torch.cat(everyone)), f"all_to_all_single {dtype} {size}"
    outputs = [torch.empty_like(x).npu() for _ in range(ranks)]
    dist.all_to_all(outputs, [x.npu() for _ in range(ranks)])
    assert all(torch.equal(a.cpu(), b) for a, b in zip(outputs, everyone)), f"all_to_all {dtype} {size}"
    neighbours(x, everyone)


def neighbours(x, everyone):
    """Send and receive in a ring: blocking, asynchronous, batched."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    y = torch.empty_like(x).npu()
    if rank % 2 == 0:
        dist.send(x.npu(), after)
        dist.recv(y, before)
    else:
        dist.recv(y, before)
        dist.send(x.npu(), after)
    assert torch.equal(y.cpu(), everyone[before]), "send and recv"
    y = torch.empty_like(x).npu()
    works = [dist.isend(x.npu(), after), dist.irecv(y, before)]
    for work in works:
        work.wait()
    assert torch.equal(y.cpu(), everyone[before]), "isend and irecv"
    y, z = torch.empty_like(x).npu(), torch.empty_like(x).npu()
    operations = [
        dist.P2POp(dist.isend, x.npu(), after),
        dist.P2POp(dist.irecv, y, before),
        dist.P2POp(dist.isend, x.npu(), before),
        dist.P2POp(dist.irecv, z, after),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert torch.equal(y.cpu(), everyone[before]) and torch.equal(z.cpu(), everyone[after]), "batch_isend_irecv"


def to_itself():
    """In a batch, in either order."""
    for first, second in ((dist.isend, dist.irecv), (dist.irecv, dist.isend)):
        x, y = make(torch.float32, 5).npu(), torch.zeros(5, device="npu")
        tensors = {dist.isend: x, dist.irecv: y}
        for work in dist.batch_isend_irecv([dist.P2POp(f, tensors[f], dist.get_rank()) for f in (first, second)]):
            work.wait()
        assert torch.equal(y, x)


def every_dtype(sizes=(13,)):
    for dtype in DTYPES:
        for size in sizes:
            reductions(dtype, size)
            movements(dtype, size)
    for dtype in (torch.complex64, torch.complex128):
        movements(dtype, 7)


def every_size():
    for size in SIZES:
        reductions(torch.float32, size)
        movements(torch.float32, size)


def complex_sum():
    x = torch.complex(make(torch.float32, 9), make(torch.float32, 9, seed=2))
    expected = torch.view_as_real(x).clone()
    dist.all_reduce(expected)
    y = x.npu()
    dist.all_reduce(y)
    torch.testing.assert_close(torch.view_as_real(y.cpu()), expected)


def premul_sum():
    for factor in (2.0, torch.tensor([2.0], device="npu")):
        op = dist._make_nccl_premul_sum(factor)
        x = make(torch.float32, 11)
        expected = 2 * x
        dist.all_reduce(expected)
        y = x.npu()
        dist.all_reduce(y, op)
        torch.testing.assert_close(y.cpu(), expected)
    for _ in range(20):  # a factor that is dropped while its reduction waits for a large one
        y, large = torch.ones(16, device="npu"), torch.ones(1 << 21, device="npu")
        works = [dist.all_reduce(large, async_op=True)]
        works.append(dist.all_reduce(y, dist._make_nccl_premul_sum(torch.full((1,), 2.0, device="npu")), async_op=True))
        filler = torch.full((1,), 99.0, device="npu")
        for work in works:
            work.wait()
        assert y.tolist() == [2.0 * dist.get_world_size()] * 16 and filler.item() == 99.0


def average_of_large_halves():
    """An average fits when its inputs do, whatever their sum is."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x = torch.full((2 * ranks,), 40000.0, dtype=torch.float16, device="npu")
    dist.all_reduce(x, ReduceOp.AVG)
    assert x.tolist() == [40000.0] * (2 * ranks)
    part = torch.empty(2, dtype=torch.float16, device="npu")
    dist.reduce_scatter_tensor(part, x, ReduceOp.AVG)
    assert part.tolist() == [40000.0] * 2
    dist.reduce_scatter(part, list(x.chunk(ranks)), ReduceOp.AVG)
    assert part.tolist() == [40000.0] * 2
    dist.reduce(x, 0, ReduceOp.AVG)
    assert rank != 0 or x.tolist() == [40000.0] * (2 * ranks)


def wrapping_integers():
    """Sums and products keep the low bits; the order of unsigned numbers knows no sign."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    for dtype in (*INTEGERS, torch.uint16, torch.uint32, torch.uint64):
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max

        def values(i, low=low, high=high):
            return [high - i, low + i, high // 2 + i + 1 if i else high // 2, 3]

        columns = list(zip(*(values(i) for i in range(ranks))))
        for name, combine in (("SUM", sum), ("PRODUCT", math.prod), ("MIN", min), ("MAX", max)):
            y = torch.tensor(values(rank), dtype=dtype).npu()
            dist.all_reduce(y, getattr(ReduceOp, name))
            expected = [(combine(column) - low) % (high - low + 1) + low for column in columns]
            assert y.cpu().tolist() == expected, f"{name} {dtype}: {y.cpu().tolist()} instead of {expected}"


def refused_reductions():
    messages = []
    for name in ("BAND", "BOR", "BXOR"):
        try:
            dist.all_reduce(torch.ones(2, dtype=torch.int32, device="npu"), getattr(ReduceOp, name))
        except (ValueError, RuntimeError) as error:
            messages.append(str(error).splitlines()[0])
    return messages


def uneven():
    from torch_npu.distributed import all_gather_into_tensor_uneven, all_to_all_vc, reduce_scatter_tensor_uneven

    rank, ranks = dist.get_rank(), dist.get_world_size()
    splits = [i + 1 for i in range(ranks)]
    begin = sum(splits[:rank])
    x = torch.full((rank + 1, 3), float(rank), device="npu")
    y = torch.empty(sum(splits), 3, device="npu")
    assert all_gather_into_tensor_uneven(y, x, splits) is None
    expected = torch.cat([torch.full((i + 1, 3), float(i)) for i in range(ranks)])
    assert torch.equal(y.cpu(), expected)
    z = torch.empty(rank + 1, 3, device="npu")
    work = reduce_scatter_tensor_uneven(z, y, splits, async_op=True)
    assert isinstance(work, dist.Work)
    work.wait()
    assert torch.equal(z.cpu(), expected[begin : begin + rank + 1] * ranks)
    outputs = [torch.empty(i + 1, device="npu") for i in range(ranks)]
    dist.all_gather(outputs, torch.full((rank + 1,), float(rank), device="npu"))
    assert [o.cpu().tolist() for o in outputs] == [[float(i)] * (i + 1) for i in range(ranks)]
    matrix = [[(i + j) % 3 for j in range(ranks)] for i in range(ranks)]
    sent, received = matrix[rank], [matrix[i][rank] for i in range(ranks)]
    y = torch.empty(sum(received), 2, device="npu")
    all_to_all_vc(y, torch.full((sum(sent), 2), float(rank), device="npu"), matrix)
    assert y[:, 0].cpu().tolist() == [float(i) for i in range(ranks) for _ in range(received[i])]


def coalesced():
    ranks = dist.get_world_size()
    tensors = [torch.full((n,), 1.0, device="npu") for n in (1, 100, 70000)]
    with dist._coalescing_manager(device=torch.device("npu"), async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    assert all(bool((t.cpu() == ranks).all()) for t in tensors)
    outputs = [torch.empty(ranks * n, device="npu") for n in (2, 30)]
    inputs = [torch.full((n,), float(dist.get_rank()), device="npu") for n in (2, 30)]
    with dist._coalescing_manager(device=torch.device("npu")):
        for output, tensor in zip(outputs, inputs):
            dist.all_gather_into_tensor(output, tensor)
    for output, tensor in zip(outputs, inputs):
        expected = torch.cat([torch.full((tensor.numel(),), float(i)) for i in range(ranks)])
        assert torch.equal(output.cpu(), expected)


def refused_arguments():
    """What does not fit is an error on every rank, before anything is launched."""
    ranks, group = dist.get_world_size(), dist.group.WORLD
    small, large = torch.ones(2, device="npu"), torch.ones(2 * ranks, device="npu")
    refused(ValueError, "one output for each input", lambda: group.allgather_into_tensor_coalesced([large], [small, small]))
    refused(ValueError, "one output for each input", lambda: group.reduce_scatter_tensor_coalesced([small], [large, large]))
    rest = torch.ones(2 * ranks + 1, device="npu")
    refused(ValueError, "world size", lambda: dist.reduce_scatter_tensor(small, rest))
    root = dist.get_rank() == 0
    # as c10d's own checks let it through
    few = [[small] * (ranks - 1)] if root else []
    options = dist.GatherOptions()
    options.rootRank = ranks
    refused(ValueError, "is not in this group", lambda: group.gather(few, [small], options))
    if root:
        refused(ValueError, "one tensor for each rank", lambda: group.gather(few, [small], dist.GatherOptions()))
        refused(ValueError, "one tensor for each rank", lambda: group.scatter([small], few, dist.ScatterOptions()))
    else:
        refused(ValueError, "on the root only", lambda: group.gather([[small] * ranks], [small], dist.GatherOptions()))
    for dtype in (torch.bool, torch.uint16, torch.uint32, torch.uint64):
        refused(TypeError, "ReduceOp.AVG", lambda dtype=dtype: dist.all_reduce(small.to(torch.int64).to(dtype), ReduceOp.AVG))
    splits = [-1, 2 * ranks + 1] + [0] * (ranks - 2)
    refused(ValueError, "must not be negative", lambda: dist.all_to_all_single(torch.empty_like(large), large, splits, splits))
    dist.all_reduce(small)
    assert small.tolist() == [ranks] * 2


def out_of_range():
    """Numbers that do not fit into HCCL's fields are errors, not other numbers."""
    rank, backend = dist.get_rank(), dist.group.WORLD._get_backend(torch.device("npu"))
    for device in (256 + rank, -1):
        refused(ValueError, "There is no npu:", lambda device=device: backend.get_hccl_comm_name(device))
    refused(ValueError, "There is no npu:256", lambda: dist.barrier(device_ids=[256]))
    for key, value in (("hccl_buffer_size", -1), ("hccl_buffer_size", 2**32 + 100), ("hccl_exec_timeout", -5)):
        options = type(backend).Options()
        options.hccl_config = {key: value}
        group = dist.new_group(backend="hccl", pg_options=options)
        x = torch.ones(1, device="npu")
        refused(ValueError, f"{key} of hccl_config must be from 0", lambda x=x, group=group: dist.all_reduce(x, group=group))


def refused(kind, words, function):
    try:
        function()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"not refused: {words}")


def coalesced_with_transfers():
    """One work stands for a collective, to which the last rank comes late, and for a message that needs no other rank."""
    rank, ranks, group, npu = dist.get_rank(), dist.get_world_size(), dist.group.WORLD, torch.device("npu")
    for late in (False, True):  # communicators are made in the first round
        x, sent, received = torch.ones(3, device="npu"), torch.full((2,), 5.0, device="npu"), torch.zeros(2, device="npu")
        dist.barrier()
        if late and rank == ranks - 1:
            time.sleep(0.5)
        group._start_coalescing(npu)
        dist.all_reduce(x, async_op=True)
        group.send([sent], rank, 0)
        group.recv([received], rank, 0)
        group._end_coalescing(npu).wait()
        assert x.tolist() == [ranks] * 3 and received.tolist() == [5.0] * 2


def groups_on_two_streams():
    """Two groups, interleaved on two streams, with work before and behind each collective."""
    ranks = dist.get_world_size()
    groups = [dist.new_group(backend="hccl") for _ in range(2)]
    streams = [torch.npu.Stream() for _ in range(2)]
    values = [torch.ones(5000, device="npu") for _ in range(2)]
    torch.npu.synchronize()
    for _ in range(10):
        for group, stream, value in zip(groups, streams, values):
            with torch.npu.stream(stream):
                value.mul_(2)
                dist.all_reduce(value, group=group)
                value.div_(ranks)
    torch.npu.synchronize()
    for value in values:
        assert bool((value.cpu() == 2.0**10).all())
    for group in groups:
        dist.destroy_process_group(group)


def subgroups():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    halves = [list(range(0, ranks, 2)), list(range(1, ranks, 2))]
    groups = [dist.new_group(members, backend="hccl") for members in halves]
    mine = rank % 2
    x = torch.tensor([float(rank)], device="npu")
    dist.all_reduce(x, group=groups[mine])
    assert x.item() == sum(halves[mine])
    assert dist.get_backend(groups[mine]) == "hccl"


def objects():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(backend="hccl")
    gathered = [None] * ranks
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank}, group=group)
    assert gathered == [{"rank": i, "text": "x" * i} for i in range(ranks)]
    values = [rank, "a", None] if rank == 0 else [None] * 3
    dist.broadcast_object_list(values, src=0, group=group, device=torch.device("npu"))
    assert values == [0, "a", None]
    received = [None]
    dist.scatter_object_list(received, [f"for {i}" for i in range(ranks)] if rank == 0 else None, src=0, group=group)
    assert received == [f"for {rank}"]
    collected = [None] * ranks if rank == 0 else None
    dist.gather_object(rank * 10, collected, dst=0, group=group)
    assert rank != 0 or collected == [i * 10 for i in range(ranks)]


def async_work():
    """Futures, completion, duration, and memory that is kept while a collective runs."""
    ranks = dist.get_world_size()
    x = torch.ones(1000, device="npu")
    work = dist.all_reduce(x, async_op=True)
    result = work.get_future().then(lambda future: future.value()[0] / ranks).wait()
    assert bool((result.cpu() == 1).all())
    work.wait()
    torch.npu.synchronize()
    assert work.is_completed() and work.is_success()
    fillers = []
    for _ in range(50):
        work = dist.all_reduce(torch.ones(20000, device="npu"), async_op=True)
        fillers.append(torch.full((20000,), 7.0, device="npu"))
    work.wait()
    assert all(bool((filler == 7.0).all()) for filler in fillers)
    dist.barrier()


def future_of_a_late_collective():
    """Asking for it keeps no other Python thread from running: here from what the other ranks wait for."""
    store, key = dist.distributed_c10d._get_default_store(), "future_of_a_late_collective"
    x = torch.ones(4).npu()

    def release_the_others():
        time.sleep(0.1)
        store.set(key, "go")

    if dist.get_rank() == 0:
        thread = threading.Thread(target=release_the_others)
        work = dist.all_reduce(x, async_op=True)
        thread.start()
        work.get_future().wait()
        thread.join()
        store.delete_key(key)
    else:
        store.get(key)
        dist.all_reduce(x)
    equal(x, torch.full((4,), float(dist.get_world_size())), "all_reduce")


def memory_afterwards():
    """Tensors of a collective that was waited for are the caller's alone."""
    torch.npu.synchronize()
    for async_op in (False, True):
        for measured in (False, True):
            before = torch.npu.memory_allocated()
            x = torch.ones(1 << 18, device="npu")
            work = dist.all_reduce(x, async_op=async_op)
            if async_op:
                work.wait()
            del work, x
            assert not measured or torch.npu.memory_allocated() == before


def large(dtype, size):
    """Every collective with `size` bytes: of the tensor in all_reduce, of all shares together in the others."""
    elements = size // dtype.itemsize
    x = make(dtype, elements, seed=4)
    for name in REDUCTIONS:
        if name == "AVG" and dtype == torch.bool:
            continue
        host_op, wide = reference(name, dtype)
        expected = x.to(wide, copy=True)
        dist.all_reduce(expected, host_op)
        y = x.npu()
        dist.all_reduce(y, getattr(ReduceOp, name))
        equal(y, averaged(expected, name), f"all_reduce {name} {dtype} {size} bytes")
    reductions(dtype, elements // dist.get_world_size())
    movements(dtype, elements // dist.get_world_size())


def functional():
    """torch.distributed._functional_collectives and the differentiable ones of torch.distributed.nn."""
    import torch.distributed._functional_collectives as funcol
    from torch.distributed.nn.functional import all_gather, all_reduce

    ranks, rank = dist.get_world_size(), dist.get_rank()
    x = torch.full((4,), float(rank + 1), device="npu")
    total = sum(range(1, ranks + 1))
    assert bool((funcol.all_reduce(x, "sum", dist.group.WORLD).cpu() == total).all())
    gathered = funcol.all_gather_tensor(x, 0, dist.group.WORLD).cpu().tolist()
    assert gathered == [float(i + 1) for i in range(ranks) for _ in range(4)]
    assert bool((funcol.reduce_scatter_tensor(x.repeat(ranks), "sum", 0, dist.group.WORLD).cpu() == total).all())
    leaf = torch.full((3,), float(rank + 1), device="npu", requires_grad=True)
    all_reduce(leaf).sum().backward()
    assert bool((leaf.grad.cpu() == ranks).all())
    leaf.grad = None
    all_gather(leaf)[0].sum().backward()  # every rank uses rank 0's
    assert bool((leaf.grad.cpu() == (ranks if rank == 0 else 0)).all())


def memory_formats():
    """channels_last in lists, on either side or on both: elements arrive where they belong."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    everyone = [torch.arange(48.0).reshape(2, 6, 2, 2) + 100 * i for i in range(ranks)]
    formats = (torch.channels_last, torch.contiguous_format)

    def like(format, values=None):
        return (torch.zeros(2, 6, 2, 2) if values is None else values).npu().to(memory_format=format)

    for given, wanted in itertools.product(formats, formats):
        what = f"{given} to {wanted}"
        x = like(given, everyone[rank])
        outputs = [like(wanted) for _ in range(ranks)]
        dist.all_gather(outputs, x)
        assert all(torch.equal(a.cpu(), b) for a, b in zip(outputs, everyone)), f"all_gather {what}"
        outputs = [like(wanted) for _ in range(ranks)] if rank == 0 else None
        dist.gather(x, outputs, dst=0)
        assert rank != 0 or all(torch.equal(a.cpu(), b) for a, b in zip(outputs, everyone)), f"gather {what}"
        y = like(wanted)
        dist.scatter(y, [like(given, values) for values in everyone] if rank == 0 else None, src=0)
        assert torch.equal(y.cpu(), everyone[rank]), f"scatter {what}"
        for op, total in ((ReduceOp.SUM, sum(everyone)), (ReduceOp.AVG, sum(everyone) / ranks)):
            y = like(wanted)
            dist.reduce_scatter(y, [x] * ranks, op)
            assert torch.equal(y.cpu(), total), f"reduce_scatter {op} {what}"
        outputs = [like(wanted) for _ in range(ranks)]
        dist.all_to_all(outputs, [x] * ranks)
        assert all(torch.equal(a.cpu(), b) for a, b in zip(outputs, everyone)), f"all_to_all {what}"
    x = like(torch.channels_last, everyone[rank])
    dist.all_reduce(x)
    assert torch.equal(x.cpu(), sum(everyone)) and x.is_contiguous(memory_format=torch.channels_last)
    dist.broadcast(x.copy_(everyone[rank]), ranks - 1)
    assert torch.equal(x.cpu(), everyone[ranks - 1])


def unseen_by_autograd():
    """Collectives write into tensors that require gradients, whatever they compute around the reduction."""
    ranks = dist.get_world_size()
    for op in (ReduceOp.SUM, ReduceOp.AVG, dist._make_nccl_premul_sum(0.5)):
        for shape in ((3,), (2, 4, 2, 2)):
            x = torch.nn.Parameter(torch.ones(shape, device="npu"))
            dist.all_reduce(x, op)
            dist.reduce(x, 0, op)
            assert x.requires_grad and x.grad_fn is None
            outputs = [torch.nn.Parameter(torch.zeros_like(x)) for _ in range(ranks)]
            dist.all_gather(outputs, x)
            dist.all_to_all(outputs, [x] * ranks)
            dist.reduce_scatter(outputs[0], outputs, op)
            whole = torch.nn.Parameter(torch.ones(ranks * 3, device="npu"))
            dist.reduce_scatter_tensor(torch.nn.Parameter(torch.ones(3, device="npu")), whole, op)
            assert all(output.grad_fn is None for output in outputs)
    leaf = torch.ones(4, device="npu", requires_grad=True)
    y = leaf * 2
    dist.all_reduce(y, ReduceOp.AVG)
    y.sum().backward()
    assert leaf.grad.tolist() == [2.0] * 4  # of the multiplication alone


def queued_memory():
    """A queued collective holds no tensor: what the caller drops is free at once, not when the queue has come so far."""
    ranks = dist.get_world_size()
    busy = torch.ones(512, 512, device="npu")
    whole, part = torch.ones(ranks * 4096, device="npu"), torch.ones(4096, device="npu")
    for name in ("reduce_scatter_tensor", "all_gather_into_tensor", "all_to_all_single", "reduce_scatter"):
        for measured in (False, True):  # what is made once is made in the first round
            torch.npu.synchronize()
            before = torch.npu.memory_allocated()
            for _ in range(20):
                torch.mm(busy, busy)
            x = torch.ones(4096 if name.startswith("all_gather") else ranks * 4096, device="npu")
            output = whole if name.startswith("all") else part
            getattr(dist, name)(output, list(x.chunk(ranks)) if name == "reduce_scatter" else x)
            del x
            assert not measured or torch.npu.memory_allocated() == before, name
