"""What ranks do in tests of failures. Each returns what it saw; the caller compares."""

import os
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import torch_npu


def ready():
    """Everything is imported and the card is open."""
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))


def start(timeout_seconds=60):
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("hccl", timeout=timedelta(seconds=timeout_seconds))
    x = torch.ones(4, device="npu")
    dist.all_reduce(x)
    return x[0].item()


def init_without_collective(timeout_seconds):
    dist.init_process_group("hccl", timeout=timedelta(seconds=timeout_seconds))


def error_of(function):
    try:
        function()
    except Exception as error:
        return str(error)
    return ""


def all_reduce_once(elements=1024, dtype=torch.float32, group=None):
    x = torch.ones(elements, dtype=dtype, device="npu")

    def step():
        dist.all_reduce(x, group=group)
        x.sum().item()

    return error_of(step)


def all_reduce_for_ever():
    x = torch.ones(1 << 20, device="npu")

    def steps():
        while True:
            dist.all_reduce(x, dist.ReduceOp.MAX)
            x[0].item()

    return error_of(steps)


def asynchronous_all_reduce():
    """The failure reaches the stream that waited for the collective, and every later call."""
    x = torch.ones(1024, device="npu")
    work = dist.all_reduce(x, async_op=True)

    def read():
        work.wait()
        x.sum().item()

    first = error_of(read)
    return first, error_of(lambda: dist.all_reduce(x))


def exit_early():
    os._exit(0)


def different_shapes(group=None):
    return all_reduce_once(1024 + dist.get_rank(), group=group)


def different_dtypes(group=None):
    return all_reduce_once(dtype=(torch.float32, torch.int32)[dist.get_rank()], group=group)


def different_order(group=None):
    x = torch.ones(8, device="npu")

    def step():
        dist.all_reduce(x, group=group) if dist.get_rank() == 0 else dist.broadcast(x, 0, group=group)
        x.sum().item()

    return error_of(step)


def blame():
    """What a good and a failed collective say of themselves, as soon as the failure is there and once it was seen."""
    group = dist.new_group(backend="hccl")
    x = torch.ones(4, device="npu")
    good = dist.all_reduce(x, group=group, async_op=True)
    good.wait()
    torch.npu.synchronize()
    bad = dist.all_reduce(torch.ones(4 + dist.get_rank(), device="npu"), group=group, async_op=True)
    while not bad.is_completed():
        time.sleep(0.001)

    def answers():
        return good.is_success(), error_of(good.wait), bad.is_success(), error_of(bad.wait), str(bad.exception())

    first = answers()
    failure_of(group)
    error_of(torch.npu.synchronize)
    return first, answers()


def transfer(elements, dtypes=(torch.float32, torch.float32)):
    """Rank 0 sends to rank 1, which expects another number or type of elements."""
    rank = dist.get_rank()
    x = torch.ones(elements[rank], dtype=dtypes[rank], device="npu")

    def step():
        (dist.send if rank == 0 else dist.recv)(x, 1 - rank)
        torch.npu.synchronize()

    return error_of(step)


def late_transfer():
    """The watchdog's words for a receive whose sender does not come, in a group whose HCCL would wait longer."""
    options = type(dist.group.WORLD._get_backend(torch.device("npu"))).Options()
    options.hccl_config = {"hccl_exec_timeout": 600}
    group = dist.new_group(backend="hccl", timeout=timedelta(seconds=5), pg_options=options)
    x = torch.ones(4, device="npu")
    (dist.send if dist.get_rank() == 0 else dist.recv)(x, 1 - dist.get_rank(), group=group)
    torch.npu.synchronize()
    if dist.get_rank() == 1:
        return None
    work = dist.irecv(x, 1, group=group)
    return failure_of(group), error_of(work.wait)


def late_collective():
    """Who speaks when the time-out is no whole number of seconds."""
    group = dist.new_group(backend="hccl", timeout=timedelta(seconds=4.2))
    x = torch.ones(4, device="npu")
    dist.all_reduce(x, group=group)
    torch.npu.synchronize()
    if dist.get_rank() == 1:
        return None
    work = dist.all_reduce(x, group=group, async_op=True)
    return failure_of(group), error_of(work.wait)


def failure_of(group):
    backend = group._get_backend(torch.device("npu"))
    while backend.failure() is None:
        time.sleep(0.01)
    return backend.failure()


def barrier_with_limit():
    work = dist.barrier(async_op=True)
    return error_of(lambda: work.wait(timedelta(milliseconds=500)))


def in_new_group(name):
    """A failure is one of its group only: the default group goes on."""
    error = globals()[name](dist.new_group(backend="hccl"))
    error_of(torch.npu.synchronize)  # the card's report, if that of the group came first
    x = torch.ones(4, device="npu")
    dist.all_reduce(x)
    return error, x[0].item()


def rebuild():
    """After a failure the same processes go on with the same group."""
    from torch_npu.distributed import reinit_process_group

    group = dist.new_group(backend="hccl")
    error = different_shapes(group)
    reinit_process_group(group)
    x = torch.ones(4, device="npu")
    dist.all_reduce(x, group=group)
    return error, x[0].item()


def reinitialise():
    from torch_npu.distributed import reinit_process_group

    return error_of(reinit_process_group)


def limited(resource_name, rank, most):
    """The first collective of a new group when `rank` is short of something; once it has it again, the group works."""
    import resource
    import signal

    from torch_npu.distributed import reinit_process_group

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # more than the limit is then an error, not a signal
    group = dist.new_group(backend="hccl", timeout=timedelta(seconds=20))
    x = torch.ones(4, device="npu")
    kind = getattr(resource, resource_name)
    limits = resource.getrlimit(kind)
    dist.barrier()  # rank 0 has the store, to which both have connected now
    if dist.get_rank() == rank:
        resource.setrlimit(kind, (limit_with_room_for(most) if resource_name == "RLIMIT_NOFILE" else most, limits[1]))
    try:
        error = error_of(lambda: dist.all_reduce(x, group=group))
    finally:
        resource.setrlimit(kind, limits)
    dist.barrier()
    reinit_process_group(group)
    x.fill_(1)
    dist.all_reduce(x, group=group)
    value = x[0].item()
    dist.destroy_process_group(group)
    return error, value


def limit_with_room_for(count):
    """A limit of descriptors below which `count` numbers are free."""
    used = {int(name) for name in os.listdir("/proc/self/fd")}
    used = {fd for fd in used if os.path.exists(f"/proc/self/fd/{fd}")}  # without that of listdir
    limit = 0
    while limit in used or count > 0:
        count -= limit not in used
        limit += 1
    return limit


def descriptors(hoped=1000000):
    """How many are open. The thread that received the ranks closes its own a moment after the last word."""
    deadline = time.monotonic() + 2
    while (count := len(os.listdir("/proc/self/fd"))) > hoped and time.monotonic() < deadline:
        time.sleep(0.01)
    return count


def init_at(init_method, seconds):
    """The error of an initialisation that cannot succeed, and that it came in time."""
    begin = time.monotonic()
    arguments = {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
    torch.npu.set_device(arguments["rank"])
    error = error_of(
        lambda: dist.init_process_group("hccl", init_method=init_method, timeout=timedelta(seconds=seconds), **arguments)
    )
    return error, time.monotonic() - begin


def init_in_store(port, room=None):
    """A group whose store outlives it. `room`: rank 1 has so many descriptors left, too few for a communicator."""
    import resource

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.npu.set_device(rank)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("hccl", store=dist.PrefixStore("run", store), rank=rank, world_size=size)
    x = torch.ones(4, device="npu")
    if room is not None and rank == 1:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit_with_room_for(room), limits[1]))
    return error_of(lambda: dist.all_reduce(x)) or x[0].item()


def twice_in_store(port):
    """Two groups after each other under the same keys of a store; in the second one rank 0 comes late."""
    values = []
    for round in range(2):
        if round == 1 and os.environ["RANK"] == "0":
            time.sleep(1)
        values.append(init_in_store(port))
        dist.destroy_process_group()
    return values


def rounds(count):
    """init/destroy again and again: descriptors, threads, memory and mappings stay."""
    import gc

    def used():
        with open("/proc/self/status") as file:
            resident = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
        with open("/proc/self/maps") as file:
            maps = sum(1 for _ in file)
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), maps, resident

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.npu.set_device(rank)
    store = dist.TCPStore(address, port, size, rank == 0)
    x = torch.ones(16, device="npu")
    seen = []
    for i in range(count):
        dist.init_process_group("hccl", store=dist.PrefixStore(str(i), store), rank=rank, world_size=size)
        dist.all_reduce(x, dist.ReduceOp.MAX)
        assert x[0].item() == 1
        dist.barrier()
        dist.destroy_process_group()
        if i in (count // 3, count - 1):
            gc.collect()
            time.sleep(0.3)
            seen.append(used())
    return seen


def init_only(init_method, variables=None):
    begin = time.monotonic()
    os.environ.update(variables or {})
    torch.npu.set_device(int(os.environ["RANK"]))
    arguments = {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
    dist.init_process_group("hccl", init_method=init_method, **arguments)
    x = torch.ones(1, device="npu")
    dist.all_reduce(x)
    value = x.item()
    dist.destroy_process_group()
    return value, time.monotonic() - begin


def default_backend():
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group()
    x, y = torch.ones(2, device="npu"), torch.ones(2)
    dist.all_reduce(x)
    dist.all_reduce(y)
    names = [dist.group.WORLD._get_backend(torch.device(d)).name() for d in ("npu", "cpu")]
    return names, x.tolist(), y.tolist()


def split():
    """Even and odd ranks by split_group; a rank that is in no part gets a non-member."""
    rank = int(os.environ["LOCAL_RANK"])
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", device_id=torch.device("npu", rank))
    group = dist.split_group(split_ranks=[[0, 2], [1, 3]])
    x = torch.ones(1, device="npu")
    dist.all_reduce(x, group=group)
    first = dist.split_group(split_ranks=[[0, 1]])
    y = torch.ones(1, device="npu")
    if rank < 2:
        dist.all_reduce(y, group=first)
        y /= 2
    return x.tolist(), dist.get_process_group_ranks(group), y.item()


def rpc():
    import torch.distributed.rpc as rpc

    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    answer = None
    if rank == 0:
        host = rpc.rpc_sync("worker1", torch.add, (torch.ones(2), 1)).tolist()
        answer = host, error_of(lambda: rpc.rpc_sync("worker1", torch.add, (torch.ones(2, device="npu"), 1)))
    rpc.shutdown()
    return answer


def stopped_while_waiting():
    """Rank 1 stays away; a supervisor of rank 0 stops its card, whose thread waits, and starts it again."""
    card, texts, store = torch.npu.current_device(), [], dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        x = torch.ones(4, device="npu")
        supervisor = threading.Timer(1.0, lambda: texts.append(str(torch.npu.stop_device(card))))
        supervisor.start()

        def work():
            dist.all_reduce(x)
            torch.npu.synchronize()

        texts.append(error_of(work))
        supervisor.join()
        texts.append(error_of(lambda: dist.all_reduce(x)))
        time.sleep(0.5)  # the watchdog would have seen it
        torch.npu.restart_device(card)
        store.set("restarted", "")
    store.wait(["restarted"])
    torch_npu.distributed.reinit_process_group()
    y = torch.ones(4, device="npu")
    dist.all_reduce(y)
    return texts, y.tolist()
