"""A thread that never selected a card uses one as the main thread does, after another thread has opened it.

Every case runs in a thread of a process of its own, forked before a card is opened: what an earlier case did (a stream that
exists, memory that is cached) would help the next one."""

import pytest

# Every case is a function of a device string; a thread starts with card 0 current and no card bound.
CASES = """
import os, sys, threading

def values(x): return x.cpu().flatten().tolist()

def copy_in(d): assert values(torch.arange(9.).to(d)) == list(range(9))
def copy_in_non_blocking(d): assert values(torch.arange(9.).to(d, non_blocking=True)) == list(range(9))
def copy_in_pinned(d): assert values(torch.arange(9.).pin_memory().to(d)) == list(range(9))
def copy_in_pinned_non_blocking(d): assert values(torch.arange(9.).pin_memory().to(d, non_blocking=True)) == list(range(9))
def copy_in_strided(d): assert values(torch.arange(12.).view(3, 4).t().to(d)) == [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]
def copy_out(d): assert shared[d].cpu().tolist() == list(range(9))
def copy_out_non_blocking(d):
    out = torch.empty(9, pin_memory=True)
    out.copy_(shared[d], non_blocking=True)
    torch.npu.synchronize(d)
    assert out.tolist() == list(range(9))
def copy_out_strided(d): assert shared[d][::2].cpu().tolist() == [0, 2, 4, 6, 8]
def copy_into_a_view(d):
    x = torch.empty(4, 2, device=d)
    x.t().copy_(torch.arange(8.).view(2, 4))
    assert values(x) == [0, 4, 1, 5, 2, 6, 3, 7]
def tolist(d): assert shared[d].tolist() == list(range(9))
def item(d): assert shared[d][5].item() == 5
def as_bool(d): assert bool(shared[d][1])
def to_numpy(d): assert shared[d].cpu().numpy()[3] == 3
def text(d): assert "8." in repr(shared[d])
def tensor_of_a_list(d): assert torch.tensor([1, 2], device=d).tolist() == [1, 2]
def tensor_of_a_number(d): assert torch.tensor(3.5, device=d).item() == 3.5
def as_tensor(d): assert torch.as_tensor([1.5], device=d).tolist() == [1.5]
def zeros(d): assert values(torch.zeros(4, device=d)) == [0] * 4
def arange(d): assert values(torch.arange(3, device=d)) == [0, 1, 2]
def empty(d): assert torch.empty(5, device=d).shape == (5,)
def same_type_to(d): assert shared[d].double().tolist() == list(range(9))
def module_to(d): assert next(torch.nn.Linear(2, 2).to(d).parameters()).device.type == "npu"
def module_npu(d): assert next(torch.nn.Linear(2, 2).npu(torch.device(d)).parameters()).device == torch.device(d)
def operators(d): assert (shared[d] + 1).sum().item() == 45
def product(d): assert (torch.ones(2, 2, device=d) @ torch.ones(2, 2, device=d)).tolist() == [[2, 2], [2, 2]]
def shape_from_data(d): assert shared[d].nonzero().shape == (8, 1)
def unique(d): assert torch.unique(torch.tensor([3, 3, 1], device=d)).tolist() == [1, 3]
def masked_select(d): assert shared[d].masked_select(shared[d] > 6).tolist() == [7, 8]
def attention(d):
    q = torch.ones(1, 1, 4, 8, device=d)
    out = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    assert torch.allclose(out.cpu(), torch.ones(1, 1, 4, 8))
def backward(d):
    x = torch.ones(3, device=d, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
def backward_in_engine_threads(d):
    with torch.autograd.set_multithreading_enabled(True):
        backward(d)
def resize(d):
    x = torch.ones(2, device=d)
    x.untyped_storage().resize_(64)
    assert x.tolist() == [1, 1]
def synchronize(d): torch.npu.synchronize(d)
def stream_new(d):
    stream = torch.npu.Stream(device=d)
    with torch.npu.stream(stream): x = torch.ones(3, device=d) + 1
    stream.synchronize()
    assert stream.query() and x.tolist() == [2, 2, 2]
def stream_handle(d): assert torch.npu.current_stream(torch.device(d)).npu_stream
def stream_synchronize(d): torch.npu.current_stream(torch.device(d)).synchronize()
def stream_query(d): assert torch.npu.default_stream(torch.device(d)).query() in (True, False)
def event_of_this_thread(d):
    begin, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    stream = torch.npu.current_stream(torch.device(d))
    begin.record(stream); end.record(stream); end.synchronize()
    assert end.query() and begin.elapsed_time(end) >= 0
def event_of_another_thread(d):
    event[d].synchronize()
    assert event[d].query()
    event[d].wait(torch.npu.current_stream(torch.device(d)))
def memory_info(d): assert 0 < torch.npu.mem_get_info(d)[0] <= torch.npu.mem_get_info(d)[1]
def memory_statistics(d): assert torch.npu.memory_allocated(d) > 0 and torch.npu.memory_stats(d) and torch.npu.memory_summary(d)
def memory_snapshot(d): assert torch.npu.memory_snapshot()
def empty_cache(d):
    x = torch.empty(1 << 22, device=d)
    del x
    torch.npu.empty_cache()
def record_stream(d):
    x = torch.ones(1 << 20, device=d)
    x.record_stream(torch.npu.Stream(device=d))
    del x
    torch.empty(1 << 20, device=d)
def memory_fraction(d): torch.npu.set_per_process_memory_fraction(1.0, d)
def pin(d): assert torch.empty(4).pin_memory().is_pinned()
def free_pinned(d):
    x = torch.empty(1 << 16).pin_memory()
    del x
    torch.npu.host_empty_cache()
def generator(d):
    g = torch.Generator(device=d).manual_seed(3)
    first = torch.rand(4, device=d, generator=g).tolist()
    assert torch.rand(4, device=d, generator=g.manual_seed(3)).tolist() == first
def seeds(d):
    torch.npu.manual_seed(1)
    torch.npu.manual_seed_all(1)
    assert torch.npu.initial_seed() == 1
    torch.npu.set_rng_state(torch.npu.get_rng_state(d), d)
def random_numbers(d): assert torch.randn(8, device=d).isfinite().all().item() and torch.randperm(5, device=d).sum().item() == 10
def queries(d):
    assert torch.npu.get_device_name(d) and torch.npu.get_device_properties(d).total_memory > 0
    assert torch.npu.is_available() and torch.npu.device_count() > 0 and torch.npu.current_device() == 0
    torch.npu.can_device_access_peer(0, 1)
    torch.npu.get_device_capability(d)
    torch.npu.utilization(d)
def device_of_thread(d):
    with torch.npu.device(d): assert torch.ones(2, device="npu").get_device() == torch.device(d).index
    assert torch.npu.current_device() == 0
def between_cards(d): assert shared[d].to("npu:2").tolist() == list(range(9)) and shared["npu:2"].to(d).tolist() == list(range(9))
def dlpack(d): assert torch.from_dlpack(shared[d]).tolist() == list(range(9))
def save_and_load(d):
    import io
    file = io.BytesIO()
    torch.save(shared[d], file); file.seek(0)
    assert torch.load(file, map_location=d).tolist() == list(range(9))
def loader_that_pins(d):
    batches = torch.utils.data.DataLoader(torch.arange(8.), batch_size=4, num_workers=1, pin_memory=True)
    assert [b.to(d, non_blocking=True).sum().item() for b in batches] == [6, 22]
def profiler(d):
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]): torch.ones(3, device=d) + 1
def collective(d):
    import torch.distributed as dist
    dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
    dist.all_reduce(shared[d])
    work = dist.all_reduce(shared[d], async_op=True)
    work.wait()
    dist.broadcast(shared[d], 0)
    dist.barrier()
    assert shared[d].tolist() == list(range(9))
    dist.destroy_process_group()

CASES = [f for f in list(globals().values()) if getattr(f, "__module__", "") == "__main__" and f is not values]
"""

RUN = """
shared, event = {}, {}
def open_card(d):  # "copy" leaves the card without a stream, "operator" does not
    shared[d] = torch.arange(9.).to(d)
    if HOW == "operator": shared[d] = shared[d] + 0
    with torch.npu.device(d):
        event[d] = torch.npu.Event()
        if HOW == "operator": event[d].record()

def run(case, d, failures):
    try:
        case(d)
    except BaseException as error:
        failures.append(f"{case.__name__}({d}): {type(error).__name__}: {str(error).splitlines()[:2]}")

def child(case, d):
    failures = []
    open_card("npu:2")
    open_card(d)
    thread = threading.Thread(target=run, args=(case, d, failures))
    thread.start(); thread.join()
    for line in failures: print(line, flush=True)
    return len(failures)

for case in CASES:
    for d in ("npu:0", "npu:1"):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = child(case, d)
            finally:
                sys.stdout.flush()
                os._exit(status)
        if os.waitpid(pid, 0)[1] & 127: print(f"{case.__name__}({d}) was killed")
"""


@pytest.mark.parametrize("level", ["0", "1", "2"])
@pytest.mark.parametrize("how", ["copy", "operator"])
def test_a_fresh_thread_uses_a_card_that_another_thread_opened(check, how, level):
    assert check(f"HOW = {how!r}\n" + CASES + RUN, TASK_QUEUE_ENABLE=level, timeout=600) == ""
