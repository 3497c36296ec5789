"""torch.npu.memory: statistics, caches, limits, raw memory, pools, snapshots, pinned memory, allocator settings."""

import gc
import os
import pickle
import random
import subprocess
import sys

import pytest
import torch

MIB = 1 << 20


@pytest.fixture(autouse=True)
def empty_allocator():
    """Each test starts with nothing allocated or cached by this process, and restarted counters."""
    if "torch._dynamo" in sys.modules:  # captured graphs of other tests
        torch._dynamo.reset()
    gc.collect()
    torch.npu.synchronize()
    torch.npu.empty_cache()
    torch.npu.reset_peak_memory_stats()
    torch.npu.reset_accumulated_memory_stats()
    yield
    torch.npu.set_per_process_memory_fraction(1.0)


@pytest.fixture
def small_card(check, tmp_path):
    """check() on a software card of 64 MiB that no other process uses."""

    def run_on_small_card(code, **environment):
        card = {"SOFTNPU_MEMORY": "64M", "SOFTNPU_DEVICES": "1", "XDG_RUNTIME_DIR": str(tmp_path)}
        return check(code, TORCH_NPU_RUNTIME="soft", **card, **environment)

    return run_on_small_card


def empty(mebibytes):
    return torch.empty(int(mebibytes * MIB), dtype=torch.uint8, device="npu")


# ---- statistics ------------------------------------------------------------------------------------------------------


def test_allocated_and_reserved_follow_a_tensor():
    before = torch.npu.memory_allocated()
    x = empty(3)
    assert torch.npu.memory_allocated() == before + 3 * MIB
    assert torch.npu.memory_reserved() >= 20 * MIB
    del x
    assert torch.npu.memory_allocated() == before
    assert torch.npu.max_memory_allocated() == before + 3 * MIB
    torch.npu.empty_cache()
    assert torch.npu.max_memory_reserved() > torch.npu.memory_reserved()


def test_sizes_are_rounded_up_to_512_bytes():
    before = torch.npu.memory_stats()
    x = torch.empty(1, device="npu")
    after = torch.npu.memory_stats()
    assert after["allocated_bytes.all.current"] - before["allocated_bytes.all.current"] == 512
    assert after["requested_bytes.all.current"] - before["requested_bytes.all.current"] == 4
    del x


def test_an_empty_tensor_takes_no_memory():
    before = torch.npu.memory_allocated()
    x = torch.empty(0, device="npu")
    assert x.device == torch.device("npu:0") and x.data_ptr() == 0
    assert torch.npu.memory_allocated() == before


def test_stats_have_every_key_of_torch_cuda():
    x = empty(1)
    stats = torch.npu.memory_stats()
    metrics = ("current", "peak", "allocated", "freed")
    for name in (
        "allocation segment active inactive_split allocated_bytes reserved_bytes active_bytes inactive_split_bytes "
        "requested_bytes"
    ).split():
        for pool in ("all", "small_pool", "large_pool"):
            for metric in metrics:
                assert stats[f"{name}.{pool}.{metric}"] >= 0
    for name in ("oversize_allocations", "oversize_segments"):
        for metric in metrics:
            assert stats[f"{name}.{metric}"] >= 0
    for name in ("alloc_retries", "ooms", "oom_rejections", "sync_all_streams", "device_alloc", "device_free"):
        assert stats[f"num_{name}"] >= 0
    assert list(stats) == sorted(stats)
    assert torch.npu.memory_stats_as_nested_dict()["allocation"]["all"]["current"] == stats["allocation.all.current"]
    del x


def check_consistency():
    """The statistics say what the snapshot shows."""
    expected = {
        f"{name}.{pool}": 0
        for name in ("allocation", "allocated_bytes", "segment", "reserved_bytes", "active", "active_bytes",
                     "inactive_split", "inactive_split_bytes")  # fmt: skip
        for pool in ("all", "small_pool", "large_pool")
    }
    for segment in torch.npu.memory_snapshot():
        if segment["device"] != 0:
            continue

        def count(name, amount, pool=segment["segment_type"] + "_pool"):
            expected[f"{name}.all"] += amount
            expected[f"{name}.{pool}"] += amount

        count("segment", 1)
        count("reserved_bytes", segment["total_size"])
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                count("allocation", 1)
                count("allocated_bytes", block["size"])
            if block["state"].startswith("active_"):
                count("active", 1)
                count("active_bytes", block["size"])
            elif len(segment["blocks"]) > 1:
                count("inactive_split", 1)
                count("inactive_split_bytes", block["size"])
    stats = torch.npu.memory_stats(0)
    assert {key: stats[f"{key}.current"] for key in expected} == expected


def test_stats_agree_with_the_snapshot():
    rng = random.Random(0)
    tensors = []
    for i in range(200):
        tensors.append(empty(rng.choice([0.001, 0.1, 0.9, 1.5, 4])))
        if i % 3 == 0:
            tensors.pop(rng.randrange(len(tensors)))
        if i % 20 == 0:
            check_consistency()
    tensors.clear()
    check_consistency()
    torch.npu.empty_cache()
    check_consistency()


def test_resetting_peaks_and_totals():
    x = empty(5)
    del x
    torch.npu.reset_peak_memory_stats()
    assert torch.npu.max_memory_allocated() == torch.npu.memory_allocated()
    assert torch.npu.memory_stats()["allocation.all.allocated"] > 0
    torch.npu.reset_accumulated_memory_stats()
    stats = torch.npu.memory_stats()
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == stats["num_device_alloc"] == 0


def test_cards_are_counted_apart():
    if torch.npu.device_count() < 2:
        pytest.skip("needs two npus")
    before = torch.npu.memory_allocated(0)
    x = torch.empty(MIB, dtype=torch.uint8, device="npu:1")
    assert torch.npu.memory_allocated("npu:1") == torch.npu.memory_allocated(torch.device("npu", 1)) == MIB
    assert torch.npu.memory_allocated(0) == torch.npu.memory_allocated() == before
    del x
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.npu.memory_stats(torch.npu.device_count())


def test_old_names_warn():
    with pytest.warns(FutureWarning, match="renamed to `torch.npu.memory_reserved`"):
        assert torch.npu.memory_cached() == torch.npu.memory_reserved()
    with pytest.warns(FutureWarning, match="renamed to `torch.npu.max_memory_reserved`"):
        assert torch.npu.max_memory_cached() == torch.npu.max_memory_reserved()
    for reset in (torch.npu.reset_max_memory_allocated, torch.npu.reset_max_memory_cached):
        with pytest.warns(FutureWarning, match="resets /all/ peak memory stats"):
            reset()


def test_summary_is_a_table_of_the_stats():
    x = empty(3)
    allocated = torch.npu.memory_allocated()  # with what other tests of this process may still hold
    summary = torch.npu.memory_summary()
    assert len({len(line) for line in summary.splitlines()}) == 1
    assert "device ID 0" in summary and "NPU OOMs: 0" in summary
    row = next(line for line in summary.splitlines() if "Allocated memory" in line)
    assert row.split("|")[2].split() == [str(allocated // 1024), "KiB"] and allocated >= 3 * MIB
    assert "from large pool" in summary and "from large pool" not in torch.npu.memory_summary(abbreviated=True)
    del x


@pytest.mark.parametrize("abbreviated", [False, True])
@pytest.mark.parametrize("scale", [1, 3 << 10, 5 << 20, 7 << 33])
def test_summary_has_the_numbers_and_units_of_torch_cuda(monkeypatch, scale, abbreviated):
    """Numbers of several sizes, among them those at which the unit changes."""
    flat = {name: scale * number for number, name in enumerate(torch.npu.memory_stats())}
    flat |= {f"allocated_bytes.all.{metric}": value for metric, value in zip(("current", "peak", "allocated", "freed"), (
        768 * 1024 - 1, 768 * 1024, 768 * 1024**2, 3 * 1024**4))}
    flat |= {f"allocation.all.{metric}": value for metric, value in zip(("current", "peak", "allocated", "freed"), (
        749_999, 750_000, 749_999_999, 750_000_000))}
    nested: dict = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    monkeypatch.setattr("torch_npu.npu.memory.memory_stats_as_nested_dict", lambda device: nested)
    monkeypatch.setattr("torch.cuda.memory.memory_stats", lambda device: flat)

    def rows(text):
        return [[cell.split() for cell in line.split("|")] for line in text.replace("GPU", "NPU").splitlines() if line.count("|") == 6]

    ours, theirs = torch.npu.memory_summary(0, abbreviated), torch.cuda.memory_summary(0, abbreviated)
    assert len(rows(ours)) == (12 if abbreviated else 30) and rows(ours) == rows(theirs)


def test_questions_do_not_initialise(check):
    code = """
assert torch.npu.memory_reserved() == torch.npu.max_memory_allocated() == torch.npu.max_memory_reserved() == 0
assert torch.npu.memory_allocated() == 0 and torch.npu.memory_stats() == {} and torch.npu.host_memory_stats() == {}
torch.npu.empty_cache()
assert not torch.npu.is_initialized()
"""
    check(code)


# ---- memory of the card ----------------------------------------------------------------------------------------------


def test_mem_get_info_sees_what_is_reserved(small_card):
    code = """
free, total = torch.npu.mem_get_info()
assert total == 64 << 20 and free == total, (free, total)
x = torch.empty(30 << 20, dtype=torch.uint8, device="npu")
assert torch.npu.mem_get_info(0) == (free - (30 << 20), total)
del x
torch.npu.empty_cache()
assert torch.npu.mem_get_info("npu:0") == (free, total)
"""
    small_card(code)


def test_out_of_memory_is_an_error_with_numbers_and_the_process_goes_on(small_card):
    code = """
x = torch.empty(30 << 20, dtype=torch.uint8, device="npu")
try:
    torch.empty(40 << 20, dtype=torch.uint8, device="npu")
except torch.OutOfMemoryError as error:
    text = str(error)
assert text.startswith("NPU out of memory. Tried to allocate 40.00 MiB. NPU 0 has a total capacity of 64.00 MiB of "
                       "which 34.00 MiB is free. Of the allocated memory 30.00 MiB is allocated by PyTorch, and 0 bytes "
                       "is reserved by PyTorch but unallocated."), text
assert torch.npu.memory_stats()["num_ooms"] == 1
del x
y = torch.empty(40 << 20, dtype=torch.uint8, device="npu")
"""
    small_card(code)


def test_cached_memory_is_given_back_before_running_out(small_card):
    code = """
x = [torch.empty(15 << 20, dtype=torch.uint8, device="npu") for _ in range(3)]
del x
y = torch.empty(60 << 20, dtype=torch.uint8, device="npu")
stats = torch.npu.memory_stats()
assert stats["num_alloc_retries"] == 1 and stats["num_ooms"] == 0
assert torch.npu.memory_reserved() == 60 << 20
"""
    small_card(code)


def test_memory_used_by_other_streams_is_waited_for_before_running_out(small_card):
    code = """
side = torch.npu.Stream()
x = torch.ones(10 << 20, device="npu")
with torch.npu.stream(side):
    side.wait_stream(torch.npu.default_stream())
    for _ in range(20):
        x.mul_(1.5)
x.record_stream(side)
del x
y = torch.empty(60 << 20, dtype=torch.uint8, device="npu")
"""
    small_card(code, SOFTNPU_ASYNC="1")


FRAGMENTED = """
blocks = [torch.empty(8 << 20, dtype=torch.uint8, device="npu") for _ in range(6)]
del blocks[1:]
try:
    large = torch.empty(50 << 20, dtype=torch.uint8, device="npu")
    print("fits")
except torch.OutOfMemoryError as error:
    print("expandable_segments:True" in str(error))
"""


def test_expandable_segments_fit_where_separate_ones_do_not(small_card):
    assert small_card(FRAGMENTED) == "True", "and the error says so"
    assert small_card(FRAGMENTED, PYTORCH_NPU_ALLOC_CONF="expandable_segments:True") == "fits"


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_expandable_segments_give_everything_back(small_card, level):
    code = """
x = [torch.ones(size << 20, dtype=torch.uint8, device="npu") for size in (1, 5, 25)]
assert all(bool((t == 1).all()) for t in x)
try:
    torch.empty(40 << 20, dtype=torch.uint8, device="npu")
except torch.OutOfMemoryError as error:
    assert "expandable_segments" not in str(error)
assert all(bool((t == 1).all()) for t in x)
del x
torch.npu.empty_cache()
assert torch.npu.memory_reserved() == 0 and torch.npu.mem_get_info() == (64 << 20, 64 << 20)
"""
    small_card(code, PYTORCH_NPU_ALLOC_CONF="expandable_segments:True", TASK_QUEUE_ENABLE=level)


def test_workspaces_of_queued_launches_go_back_with_the_cache_while_threads_launch(small_card):
    code = """
import itertools, threading
x, ends = torch.arange(1000.0).npu(), threading.Event()
wrong = []
def launch():
    for turn in itertools.count():
        if float((x + x).sum()) != 999000.0: wrong.append(turn)
        if turn > 20 and ends.is_set(): return
threads = [threading.Thread(target=launch) for _ in range(2)]
for thread in threads: thread.start()
for _ in range(200):
    torch.npu.empty_cache()
ends.set()
for thread in threads: thread.join()
assert not wrong
del x
torch.npu.empty_cache()
assert torch.npu.mem_get_info() == (64 << 20, 64 << 20), torch.npu.mem_get_info()
"""
    small_card(code, SOFTNPU_WORKSPACE="all", SOFTNPU_STRICT="1", TASK_QUEUE_ENABLE="2")


def test_a_process_can_be_limited_to_a_fraction():
    total = torch.npu.mem_get_info()[1]
    torch.npu.set_per_process_memory_fraction(0.5)
    assert torch.npu.get_per_process_memory_fraction() == 0.5
    with pytest.raises(torch.OutOfMemoryError, match="allowed for this process.*set_per_process_memory_fraction"):
        torch.empty(total // 2 + 4 * MIB, dtype=torch.uint8, device="npu")
    torch.npu.set_per_process_memory_fraction(1.0, "npu:0")
    for fraction, error in ((2, TypeError), ("0.1", TypeError), (2.0, ValueError), (-0.1, ValueError)):
        with pytest.raises(error, match="fraction"):
            torch.npu.set_per_process_memory_fraction(fraction)


# ---- streams ---------------------------------------------------------------------------------------------------------


def test_a_block_is_reused_on_its_stream_only():
    side = torch.npu.Stream()
    x = torch.empty(100, device="npu")
    address = x.data_ptr()
    del x
    with torch.npu.stream(side):
        y = torch.empty(100, device="npu")
        assert y.data_ptr() != address
    z = torch.empty(100, device="npu")
    assert z.data_ptr() == address
    del y, z


# ---- raw memory ------------------------------------------------------------------------------------------------------


def test_raw_allocations():
    before = torch.npu.memory_allocated()
    side = torch.npu.Stream()
    for stream in (None, side, side.npu_stream, 0):
        address = torch.npu.caching_allocator_alloc(1000, stream=stream)
        assert address != 0 and torch.npu.memory_allocated() == before + 1024
        torch.npu.caching_allocator_delete(address)
        assert torch.npu.memory_allocated() == before
    with pytest.raises(ValueError, match="invalid device pointer"):
        torch.npu.caching_allocator_delete(address)
    with pytest.raises(TypeError, match="Invalid type for stream argument"):
        torch.npu.caching_allocator_alloc(1000, stream="side")


def test_the_backend_is_native():
    assert torch.npu.get_allocator_backend() == "native"


@pytest.fixture(scope="module")
def pluggable_library(tmp_path_factory):
    """A library with my_malloc and my_free over the runtime, and counters of their calls."""
    folder = tmp_path_factory.mktemp("allocator")
    source = folder / "allocator.cpp"
    source.write_text(
        """
        #include <sys/types.h>
        extern "C" {
        int aclrtMalloc(void** p, size_t bytes, int policy);
        int aclrtFree(void* p);
        int aclrtSynchronizeStream(void* stream);
        int allocated = 0, freed = 0;
        void* my_malloc(ssize_t bytes, int device, void* stream) {
          void* p = nullptr;
          allocated += device == 0;
          return aclrtMalloc(&p, bytes, 0) == 0 ? p : nullptr;
        }
        void my_free(void* p, ssize_t bytes, int device, void* stream) {
          freed += aclrtSynchronizeStream(stream) == 0 && aclrtFree(p) == 0;
        }
        }
        """
    )
    library = folder / "allocator.so"
    runtime = os.path.join(os.path.dirname(torch.npu.memory.__file__), "..", "softnpu", "lib64")
    link = ["-Wl,--no-as-needed", f"-L{runtime}", "-lascendcl", f"-Wl,-rpath,{runtime}"]
    command = ["g++", "-shared", "-fPIC", "-o", library, source, *link]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no compiler or runtime to build an allocator with: {error}")
    return str(library)


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_a_users_allocator_serves_every_tensor(check, pluggable_library, level):
    code = f"""
import ctypes, gc
allocator = torch.npu.memory.NPUPluggableAllocator({pluggable_library!r}, "my_malloc", "my_free")
torch.npu.memory.change_current_allocator(allocator)
assert torch.npu.get_allocator_backend() == "pluggable"
library = ctypes.CDLL({pluggable_library!r})
count = lambda name: ctypes.c_int.in_dll(library, name).value
x = torch.ones(100, device="npu")
assert (x + x).sum().item() == 200
assert count("allocated") > 0
torch.npu.synchronize()
del x
assert count("freed") == count("allocated"), (count("freed"), count("allocated"))
try:
    torch.npu.memory_stats()
except NotImplementedError as error:
    print(error)
try:
    torch.npu.memory.change_current_allocator(allocator)
except RuntimeError as error:
    print(error)
"""
    lines = check(code, TASK_QUEUE_ENABLE=level).splitlines()
    assert lines[0] == "NPUPluggableAllocator does not yet support getDeviceStats"
    assert lines[-1].startswith("Can't swap an already initialized allocator")


# ---- pools -----------------------------------------------------------------------------------------------------------


def test_a_pool_has_memory_of_its_own():
    pool = torch.npu.MemPool()
    assert pool.id[0] == 0 and pool.use_count() == 1
    with torch.npu.use_mem_pool(pool):
        assert pool.use_count() == 2
        x = empty(1)
        y = empty(3)
    assert pool.use_count() == 1
    segments = pool.snapshot()
    assert sorted(segment["segment_type"] for segment in segments) == ["large", "small"]
    assert {segment["segment_pool_id"] for segment in segments} == {pool.id}
    reserved = torch.npu.memory_stats()[f"reserved_bytes_by_private_pools.{pool.id[0]}_{pool.id[1]}.all.current"]
    assert reserved == sum(segment["total_size"] for segment in segments)
    address = x.data_ptr()
    del x
    z = empty(1)
    assert z.data_ptr() != address, "outside of the pool"
    torch.npu.empty_cache()
    assert len(pool.snapshot()) == 2, "a pool in use keeps its memory"
    del y
    identifier = pool.id
    del pool
    assert torch.npu.memory_snapshot(identifier) == []


def test_a_pool_takes_its_memory_from_a_users_allocator(check, pluggable_library):
    code = f"""
import ctypes
library = ctypes.CDLL({pluggable_library!r})
count = lambda name: ctypes.c_int.in_dll(library, name).value
allocator = torch.npu.memory.NPUPluggableAllocator({pluggable_library!r}, "my_malloc", "my_free")
pool = torch.npu.MemPool(allocator.allocator())
outside = torch.ones(10, device="npu")
assert count("allocated") == 0
with torch.npu.use_mem_pool(pool):
    x = torch.ones(10, device="npu")
    y = torch.ones(10, device="npu")
assert count("allocated") == 1 and count("freed") == 0
del x, y, pool
assert count("freed") == 1
"""
    check(code)


# ---- snapshots -------------------------------------------------------------------------------------------------------


@pytest.fixture
def history():
    torch.npu.memory._record_memory_history(max_entries=1000, stacks="python", clear_history=True)
    yield
    torch.npu.memory._record_memory_history(None)


def test_the_snapshot_shows_segments_and_blocks():
    x = empty(0.5)
    segments = torch.npu.memory_snapshot()
    (segment,) = (s for s in segments if s["address"] <= x.data_ptr() < s["address"] + s["total_size"])
    assert segment["device"] == 0 and segment["total_size"] == 2 * MIB and segment["segment_type"] == "small"
    assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    (block,) = (block for block in segment["blocks"] if block["address"] == x.data_ptr())
    assert block["state"] == "active_allocated" and block["size"] == block["requested_size"] == MIB // 2
    del x


def test_history_has_actions_sizes_and_frames(history):
    def make_a_tensor():
        return empty(3)

    torch.npu.memory._set_memory_metadata("here")
    x = make_a_tensor()
    assert torch.npu.memory._get_memory_metadata() == "here"
    torch.npu.memory._set_memory_metadata("")
    traceback = torch.npu.memory._allocation_traceback(x.data_ptr())
    assert any(frame["name"] == "make_a_tensor" for frame in traceback)
    address = x.data_ptr()
    del x
    snapshot = torch.npu.memory._snapshot()
    trace = snapshot["device_traces"][0]
    mine = [entry for entry in trace if entry.get("addr") == address and entry["size"] == 3 * MIB]
    assert [entry["action"] for entry in mine] == ["alloc", "free_requested", "free_completed"]
    assert mine[0]["user_metadata"] == "here"
    assert any(frame["name"] == "make_a_tensor" for frame in mine[0]["frames"])
    assert 0 < mine[0]["time_us"] <= mine[-1]["time_us"]
    assert trace[-1]["action"] == "snapshot"
    assert torch.npu.memory._allocation_traceback(address) is None


def test_history_can_be_limited(history):
    torch.npu.memory._record_memory_history(max_entries=5, context=None, stacks="python", skip_actions=["free_requested"])
    for _ in range(10):
        empty(0.1)
    trace = torch.npu.memory._snapshot()["device_traces"][0]
    assert len(trace) == 5 and {entry["action"] for entry in trace} == {"alloc", "free_completed", "snapshot"}
    assert all(entry["frames"] == [] for entry in trace)
    for arguments in ({"enabled": "some"}, {"context": "some"}, {"stacks": "some"}):
        with pytest.raises(ValueError):
            torch.npu.memory._record_memory_history(**arguments)


def test_upstreams_viewer_reads_the_snapshot(history, tmp_path):
    from torch.cuda import _memory_viz

    x = [empty(size) for size in (0.1, 2, 30)]
    del x[1]
    torch.npu.memory._dump_snapshot(tmp_path / "snapshot.pickle")
    with open(tmp_path / "snapshot.pickle", "rb") as file:
        snapshot = pickle.load(file)
    assert "segments: " in _memory_viz.segsum(snapshot)
    assert "alloc" in _memory_viz.trace(snapshot)


def test_running_out_of_memory_is_in_the_history(small_card):
    code = """
torch.npu.memory._record_memory_history(stacks="python")
x = torch.empty(10 << 20, dtype=torch.uint8, device="npu")
seen = []
torch_npu._C.attach_out_of_memory_observer(lambda device, size, total, free: seen.append((device, size, total, free)))
try:
    torch.empty(60 << 20, dtype=torch.uint8, device="npu")
except torch.OutOfMemoryError:
    pass
(oom,) = [e for e in torch.npu.memory._snapshot()["device_traces"][0] if e["action"] == "oom"]
assert oom["size"] == 60 << 20 and oom["device_free"] == 54 << 20
assert seen == [(0, 60 << 20, 64 << 20, 54 << 20)], seen
"""
    small_card(code)


# ---- pinned memory ---------------------------------------------------------------------------------------------------


def test_pinned_memory_is_counted_and_reused():
    torch.npu.host_empty_cache()
    torch.npu.reset_peak_host_memory_stats()
    torch.npu.reset_accumulated_host_memory_stats()
    before = torch.npu.host_memory_stats()  # what other tests of this process still hold
    x = torch.empty(1000).pin_memory()
    assert x.is_pinned() and x[10:].is_pinned() and not torch.empty(10).is_pinned()
    stats = torch.npu.host_memory_stats()
    active = before["active_bytes.current"] + 4096
    assert stats["active_bytes.current"] == active and stats["num_host_alloc"] >= 1
    assert torch.npu.host_memory_stats_as_nested_dict()["active_bytes"]["current"] == active
    address = x.data_ptr()
    del x
    assert torch.npu.host_memory_stats()["active_bytes.current"] == before["active_bytes.current"]
    y = torch.empty(900).pin_memory()
    assert y.data_ptr() == address
    del y
    torch.npu.host_empty_cache()
    assert torch.npu.host_memory_stats()["allocated_bytes.current"] == before["allocated_bytes.current"]


# ---- settings --------------------------------------------------------------------------------------------------------

USE = "torch.ones(1, device='npu')"


def test_both_variables_at_once_are_an_error(run):
    both = dict.fromkeys(["PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF"], "max_split_size_mb:64")
    process = run(f"import torch, torch_npu\n{USE}", **both)
    assert process.returncode != 0
    assert "PYTORCH_NPU_ALLOC_CONF and PYTORCH_ALLOC_CONF are both set; unset one of them" in process.stderr


@pytest.mark.parametrize("variable", ["PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_an_unknown_key_is_named_on_first_use(run, variable):
    process = run(f"import torch, torch_npu\nprint('imported')\n{USE}", **{variable: "max_spilt_size_mb:64"})
    assert process.returncode != 0 and process.stdout.strip() == "imported"
    assert "unknown key 'max_spilt_size_mb'. Valid keys: " in process.stderr
    assert "max_split_size_mb" in process.stderr and variable in process.stderr


@pytest.mark.parametrize(
    "text", ["max_split_size_mb:many", "max_split_size_mb:1", "expandable_segments:yes", "max_split_size_mb"]
)
def test_bad_values_are_errors_that_name_the_variable(run, text):
    process = run(f"import torch, torch_npu\n{USE}", PYTORCH_NPU_ALLOC_CONF=text)
    assert process.returncode != 0 and "ValueError" in process.stderr
    assert "PYTORCH_NPU_ALLOC_CONF" in process.stderr


def test_settings_take_effect(check):
    code = """
x = torch.empty(2 << 20, dtype=torch.uint8, device="npu")
assert torch.npu.memory_reserved() == 40 << 20
stats = torch.npu.memory_stats()
assert stats["max_split_size"] == 64 << 20
assert torch.npu.get_per_process_memory_fraction() == 0.5
assert torch.npu.memory._snapshot()["allocator_settings"]["max_split_size"] == 64 << 20
torch.npu.memory._set_allocator_settings("max_split_size_mb:100")
assert torch.npu.memory_stats()["max_split_size"] == 100 << 20
"""
    check(code, PYTORCH_NPU_ALLOC_CONF="max_split_size_mb:64,large_segment_size_mb:40,per_process_memory_fraction:0.5")


def test_without_caching_every_free_reaches_the_card(small_card):
    code = """
x = torch.ones(30 << 20, dtype=torch.uint8, device="npu")
y = x + x
assert y.sum().item() == 60 << 20
free = torch.npu.mem_get_info()[0]
del y
assert torch.npu.mem_get_info()[0] == free + (30 << 20)
assert torch.npu.memory_reserved() == 0
try:
    torch.empty(40 << 20, dtype=torch.uint8, device="npu")
except torch.OutOfMemoryError as error:
    assert "Tried to allocate 40.00 MiB" in str(error)
"""
    small_card(code, PYTORCH_NO_NPU_MEMORY_CACHING="1")


# ---- the process's life ----------------------------------------------------------------------------------------------


def test_tensors_may_outlive_everything(check):
    code = """
import atexit, sys
side = torch.npu.Stream()
x = torch.ones(1000, device="npu")
x.record_stream(side)
pinned = torch.ones(1000).pin_memory()
y = pinned.to("npu", non_blocking=True)
sys.kept = [x, y, pinned]
class Late:
    def __del__(self, kept=sys.kept):
        kept.clear()
sys.late = Late()
print("done")
"""
    assert check(code) == "done"


def test_a_forked_child_can_drop_the_parents_tensors(check):
    code = """
import os
x = torch.arange(1000, device="npu")
x.record_stream(torch.npu.Stream())
pinned = torch.ones(1000).pin_memory()
child = os.fork()
if child == 0:
    del x, pinned
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert x.sum().item() == 499500
"""
    check(code)


def test_threads_allocate_together():
    import threading

    errors = []

    def work(seed):
        try:
            rng = random.Random(seed)
            with torch.npu.stream(torch.npu.Stream() if seed % 2 else torch.npu.default_stream()):
                kept = []
                for _ in range(300):
                    value = rng.randrange(100)
                    kept.append((torch.full((rng.randrange(1, 5000),), value, device="npu"), value))
                    if len(kept) > 10:
                        tensor, expected = kept.pop(rng.randrange(len(kept)))
                        if not bool((tensor == expected).all()):
                            errors.append((seed, expected))
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    before = torch.npu.memory_allocated()
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.npu.synchronize()
    assert errors == [] and torch.npu.memory_allocated() == before


def test_pictures_are_of_the_given_snapshot(monkeypatch, tmp_path):
    from torch.cuda import _memory_viz

    for name, draw in (("memory", torch.npu.memory._save_memory_usage), ("segments", torch.npu.memory._save_segment_usage)):
        monkeypatch.setattr(_memory_viz, name, lambda snapshot, name=name: f"{name} of {snapshot}")
        monkeypatch.setattr(torch.npu.memory, "_snapshot", lambda: "a new one")
        for given, expected in (({}, "a new one"), ({"snapshot": "mine"}, "mine")):
            draw(str(tmp_path / "x.svg"), **given)
            assert (tmp_path / "x.svg").read_text() == f"{name} of {expected}"


@pytest.mark.parametrize("call", ["torch.npu.set_per_process_memory_fraction(0.5)", "torch.npu.get_per_process_memory_fraction()"])
def test_the_fraction_is_the_first_call_of_a_program(check, call):
    check(f"import torch, torch_npu\n{call}\nassert torch.npu.is_initialized()")
