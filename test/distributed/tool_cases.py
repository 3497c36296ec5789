"""Flight recorder, options, timing and names: what a rank does. Runs in the ranks."""

import os

import torch
import torch.distributed as dist

import torch_npu


def recorded(folder):
    """Some collectives, then the dump, as a file for the analyser."""
    x = torch.ones(8, device="npu")
    for _ in range(3):
        dist.all_reduce(x)
    dist.broadcast(x, 0)
    torch.npu.synchronize()
    backend = dist.group.WORLD._get_backend(torch.device("npu"))
    backend._wait_for_pending_works()
    text = torch_npu._C._dump_hccl_trace()
    with open(os.path.join(folder, f"hccl_trace_rank_{dist.get_rank()}"), "wb") as file:
        file.write(text)
    return text


def dumped_on_failure():
    try:
        dist.all_reduce(torch.ones(4 + dist.get_rank(), device="npu"))
        torch.npu.synchronize()
    except RuntimeError:
        pass
    import time

    path = os.environ["TORCH_HCCL_DEBUG_INFO_TEMP_FILE"] + str(dist.get_rank())
    for _ in range(100):
        if os.path.exists(path) and os.path.getsize(path):
            return path
        time.sleep(0.1)
    return ""


def options():
    """Time-outs, priorities, hccl_config; a key that does not exist is refused."""
    from torch_npu.distributed.backend import backend_module

    Options = backend_module().ProcessGroupHCCL.Options
    good = Options(is_high_priority_stream=True)
    good.hccl_config = {"hccl_buffer_size": 100, "group_name": "mine"}
    group = dist.new_group(backend="hccl", pg_options=good)
    x = torch.ones(2, device="npu")
    dist.all_reduce(x, group=group)
    assert x.tolist() == [dist.get_world_size()] * 2
    name = group._get_backend(torch.device("npu")).get_hccl_comm_name(torch.npu.current_device())
    bad = Options()
    bad.hccl_config = {"no_such_key": 1}
    group = dist.new_group(backend="hccl", pg_options=bad)
    try:
        dist.all_reduce(x, group=group)
    except (ValueError, RuntimeError) as error:
        return name, str(error).splitlines()[0]
    return name, ""


def duration():
    backend = dist.group.WORLD._get_backend(torch.device("npu"))
    backend.enable_collectives_timing()
    work = dist.all_reduce(torch.ones(100000, device="npu"), async_op=True)
    work.wait()
    torch.npu.synchronize()
    return work._get_duration()


def backend_class():
    return type(dist.group.WORLD._get_backend(torch.device("npu"))).__name__
