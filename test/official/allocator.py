"""What the client's allocators count, keep and give back: statistics, snapshots, pools, pinned memory."""

import gc
import os
import pickle
import tempfile
from pathlib import Path

import torch
from rows import each

import torch_npu

IN_MODES = ("queue 1",)
MB = 1 << 20


def emptied():
    torch.npu.set_device(0)
    gc.collect()
    torch.npu.synchronize()
    torch.npu.empty_cache()


@each(["allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes", "allocation", "segment", "active", "inactive_split"])
def check_statistics_hold_together(family):
    """Of a family: the pools add up to all, and what is there is what came less what went, and never more than the peak."""
    emptied()
    kept = [torch.empty(size, dtype=torch.uint8, device="npu") for size in (100, 1000, 3 * MB, 20 * MB)]
    del kept[1:3]
    stats = torch.npu.memory_stats()
    for kind in ("current", "peak", "allocated", "freed"):
        if kind != "peak":
            assert stats[f"{family}.all.{kind}"] == sum(stats[f"{family}.{pool}_pool.{kind}"] for pool in ("small", "large"))
    assert stats[f"{family}.all.current"] == stats[f"{family}.all.allocated"] - stats[f"{family}.all.freed"]
    assert stats[f"{family}.all.peak"] >= stats[f"{family}.all.current"] >= 0


@each({"small": 100, "large": 3 * MB, "huge": 30 * MB})
def check_a_tensor_counts_where_its_size_belongs(size):
    emptied()
    pool, other = ("small", "large") if size < MB else ("large", "small")
    before = torch.npu.memory_stats()
    x = torch.empty(size, dtype=torch.uint8, device="npu")
    after = torch.npu.memory_stats()
    grown = {p: after[f"allocated_bytes.{p}_pool.current"] - before[f"allocated_bytes.{p}_pool.current"] for p in (pool, other)}
    assert grown[other] == 0 and size <= grown[pool] <= size + 1024, grown
    assert after["allocation.all.current"] - before["allocation.all.current"] == 1
    del x
    assert torch.npu.memory_stats()[f"allocated_bytes.{pool}_pool.current"] == before[f"allocated_bytes.{pool}_pool.current"]


@each(
    {
        "allocated": (torch.npu.max_memory_allocated, torch.npu.reset_peak_memory_stats),
        "reserved": (torch.npu.max_memory_reserved, torch.npu.reset_peak_memory_stats),
        "allocated, of old": (torch.npu.max_memory_allocated, torch.npu.reset_max_memory_allocated),
        "cached, of old": (torch.npu.max_memory_cached, torch.npu.reset_max_memory_cached),
    }
)
def check_peaks_are_kept_and_reset(row):
    peak, reset = row
    emptied()
    x = torch.empty(64 * MB, dtype=torch.uint8, device="npu")
    del x
    emptied()
    assert peak() >= 64 * MB
    reset()
    assert peak() < 64 * MB


def check_accumulated_statistics_are_reset():
    torch.ones(3, device="npu")
    torch.npu.reset_accumulated_memory_stats()
    stats = torch.npu.memory_stats()
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 0


def check_nested_statistics_are_the_flat_ones():
    nested, flat = torch.npu.memory_stats_as_nested_dict(), torch.npu.memory_stats()
    assert nested["allocated_bytes"]["all"]["current"] == flat["allocated_bytes.all.current"]
    assert nested["num_ooms"] == flat["num_ooms"]


def check_every_card_has_its_statistics():
    emptied()
    before = [torch.npu.memory_allocated(card) for card in range(2)]
    x = torch.empty(MB, device="npu:1")
    assert torch.npu.memory_allocated(0) == before[0]
    assert torch.npu.memory_allocated(1) - before[1] >= x.nbytes


@each({"whole": False, "short": True})
def check_the_summary_names_what_it_counts(abbreviated):
    text = torch.npu.memory_summary(abbreviated=abbreviated)
    assert "Allocated memory" in text and ("small pool" in text) != abbreviated


def check_raw_memory():
    before = torch.npu.memory_allocated()
    address = torch.npu.caching_allocator_alloc(MB)
    assert address and torch.npu.memory_allocated() - before >= MB
    torch.npu.caching_allocator_delete(address)
    assert torch.npu.memory_allocated() == before


def check_memory_is_reused():
    emptied()
    x = torch.empty(5 * MB, dtype=torch.uint8, device="npu")
    address = x.data_ptr()
    del x
    assert torch.empty(5 * MB, dtype=torch.uint8, device="npu").data_ptr() == address


def check_a_fraction_of_the_card_is_a_limit():
    emptied()
    total = torch.npu.mem_get_info()[1]
    torch.npu.set_per_process_memory_fraction(0.25)
    try:
        torch.empty(total // 2, dtype=torch.uint8, device="npu")
    except torch.OutOfMemoryError:
        pass
    else:
        raise AssertionError("more than the fraction")
    finally:
        torch.npu.set_per_process_memory_fraction(1.0)
    assert torch.empty(total // 2, dtype=torch.uint8, device="npu").numel()


@each(["Tried to allocate", "total capacity", "already allocated", "free", "reserved", "max_split_size_mb"])
def check_out_of_memory_says(words):
    emptied()
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="npu")
    except torch.OutOfMemoryError as error:
        assert words in str(error), error
    else:
        raise AssertionError("a terabyte")


def check_running_out_is_counted():
    emptied()
    before = torch.npu.memory_stats()["num_ooms"]
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="npu")
    except torch.OutOfMemoryError:
        pass
    assert torch.npu.memory_stats()["num_ooms"] == before + 1


def check_a_full_cache_is_given_back_before_running_out():
    emptied()
    total = torch.npu.mem_get_info()[1]
    x = torch.empty(total // 2, dtype=torch.uint8, device="npu")
    del x
    before = torch.npu.memory_stats()["num_alloc_retries"]
    y = torch.empty(total * 3 // 4, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_stats()["num_alloc_retries"] == before + 1
    del y


def recorded_snapshot():
    emptied()
    torch.npu.memory._record_memory_history()
    try:
        x = torch.empty(3 * MB, dtype=torch.uint8, device="npu")
        address = x.data_ptr()
        del x
        return address, torch.npu.memory._snapshot()
    finally:
        torch.npu.memory._record_memory_history(None)


def check_a_snapshot_lists_segments():
    x = torch.empty(3 * MB, dtype=torch.uint8, device="npu")
    blocks = [block for segment in torch.npu.memory_snapshot() for block in segment["blocks"]]
    (found,) = (block for block in blocks if block.get("address") == x.data_ptr())
    assert found["state"] == "active_allocated" and found["size"] >= x.numel()


def check_history_has_what_was_made_and_freed_with_stacks():
    address, snapshot = recorded_snapshot()
    events = [event for trace in snapshot["device_traces"] for event in trace if event["addr"] == address]
    assert [event["action"] for event in events if event["action"] != "segment_alloc"][0] == "alloc"
    assert "free_completed" in {event["action"] for event in events}
    frames = next(event["frames"] for event in events if event["action"] == "alloc")
    assert any(frame["name"] == "recorded_snapshot" for frame in frames)


def check_a_dumped_snapshot_is_read_by_the_viewer_of_torch():
    from torch.cuda import _memory_viz

    recorded_snapshot()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "snapshot.pickle"
        torch.npu.memory._dump_snapshot(str(file))
        snapshot = pickle.loads(file.read_bytes())
    assert "segments" in snapshot and "device_traces" in snapshot
    assert "MiB" in _memory_viz.segsum(snapshot) or "Total" in _memory_viz.segsum(snapshot)
    assert "<html" in _memory_viz.trace_plot(snapshot).lower()


def check_a_pool_keeps_its_memory_apart():
    emptied()
    pool = torch.npu.MemPool()
    with torch.npu.use_mem_pool(pool):
        x = torch.empty(3 * MB, dtype=torch.uint8, device="npu")
    addresses = {block["address"] for segment in pool.snapshot() for block in segment["blocks"]}
    y = torch.empty(3 * MB, dtype=torch.uint8, device="npu")
    assert x.data_ptr() in addresses and y.data_ptr() not in addresses


def check_swapped_memory_is_used_by_operators():
    x = torch_npu.empty_with_swapped_memory([4], dtype=torch.float32, device=torch.device("npu:0"))
    x.fill_(2.0)
    assert (x + torch.ones(4).npu()).cpu().tolist() == [3.0] * 4


HOST = {
    "pin_memory": lambda: torch.ones(1000).pin_memory(),
    "empty": lambda: torch.empty(1000, pin_memory=True),
    "zeros": lambda: torch.zeros(1000, pin_memory=True),
    "empty_strided": lambda: torch.empty_strided((10, 10), (1, 10), pin_memory=True),
    "tensor": lambda: torch.tensor([1.0, 2.0], pin_memory=True),
    "storage": lambda: torch.empty(0).set_(torch.ones(8).untyped_storage().pin_memory()),
}


@each(HOST)
def check_pinned_memory_is_made_by(make):
    x = make()
    assert x.is_pinned() and x.device.type == "cpu"
    assert torch.equal(x.npu(non_blocking=True).cpu().nan_to_num(), x.nan_to_num())


def check_a_view_of_pinned_memory_is_pinned():
    x = torch.ones(10, 10).pin_memory()
    assert x[2:, 3].is_pinned() and not x.clone().is_pinned()


def check_pinned_memory_has_statistics():
    before = torch.npu.host_memory_stats()
    kept = torch.empty(5 * MB, dtype=torch.uint8, pin_memory=True)
    after = torch.npu.host_memory_stats()
    name = "allocated_bytes.current" if "allocated_bytes.current" in after else next(n for n in after if n.endswith("bytes.allocated"))
    assert after[name] - before.get(name, 0) >= kept.numel(), (before, after)
    assert torch.npu.host_memory_stats_as_nested_dict()
    del kept
    torch.npu.host_empty_cache()


def check_a_dropped_batch_is_not_overwritten_while_it_is_copied():
    """The host's allocator knows by an event that a copy still reads the memory."""
    results = []
    for turn in range(20):
        x = torch.full((1 << 16,), float(turn)).pin_memory()
        results.append(x.to("npu", non_blocking=True))
        del x
    assert [result.mean().item() for result in results] == list(map(float, range(20)))


def check_a_child_after_the_card_was_used_must_be_spawned():
    torch.ones(1).npu()
    process = os.fork()
    if not process:
        try:
            torch.ones(1).npu()
        except RuntimeError as error:
            os._exit(7 if "spawn" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7
