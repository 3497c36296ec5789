"""Functions of torch.npu that hand over to the extension: what each one asks of it, in which order, and what comes back."""

import pickle
from types import SimpleNamespace

import pytest
import torch

import torch_npu
from torch_npu.npu import deterministic, devices, graphs, memory, overflow, random, streams, sync_debug, utils

INIT = ("initialise",)


class Extension:
    """Stands for torch_npu._C: each call is kept as (name, arguments...), and gives its name, or what `answers` says."""

    def __init__(self, **answers):
        self.calls, self.answers = [], answers

    def __getattr__(self, name):
        def call(*arguments, **options):
            self.calls.append((name, *arguments, *([options] if options else [])))
            return self.answers.get(name, name)

        return call


@pytest.fixture
def extension(monkeypatch):
    """extension(module, **answers): the calls of that module go there; so does the initialisation."""
    def replace(module, **answers):
        made = Extension(**answers)
        monkeypatch.setattr(module, "_C", made)
        if module is devices:
            monkeypatch.setattr(module, "_lazy_init", lambda: made.calls.append(INIT))
        elif hasattr(module, "devices"):
            monkeypatch.setattr(module.devices, "_lazy_init", lambda: made.calls.append(INIT))
            monkeypatch.setattr(module.devices, "_get_device_index", lambda device, optional=False: (device, optional))
        return made

    return replace


# module, function, arguments, what is asked, what comes back
CALLS = [
    (memory, "mem_get_info", (3,), [INIT, ("mem_get_info", 3)], "mem_get_info"),
    (memory, "reset_accumulated_memory_stats", (3,), [INIT, ("reset_accumulated_memory_stats", 3)], None),
    (memory, "reset_peak_memory_stats", (3,), [INIT, ("reset_peak_memory_stats", 3)], None),
    (memory, "reset_accumulated_host_memory_stats", (), [("reset_accumulated_host_memory_stats",)], None),
    (memory, "reset_peak_host_memory_stats", (), [("reset_peak_host_memory_stats",)], None),
    (memory, "memory_stats_as_nested_dict", (3,), [("memory_stats", 3)], "memory_stats"),
    (memory, "host_memory_stats_as_nested_dict", (), [("host_memory_stats",)], "host_memory_stats"),
    (memory, "empty_cache", (), [("collect_shared",), ("empty_cache",)], None),
    (memory, "empty_virt_addr_cache", (), [("collect_shared",), ("empty_cache",)], None),
    (memory, "host_empty_cache", (), [("host_empty_cache",)], None),
    (memory, "set_per_process_memory_fraction", (0.5, 3), [INIT, ("set_memory_fraction", 0.5, 3)], None),
    (memory, "get_per_process_memory_fraction", (3,), [INIT, ("get_memory_fraction", 3)], "get_memory_fraction"),
    (memory, "_set_allocator_settings", ("a:b",), [("set_allocator_settings", "a:b")], None),
    (memory, "caching_allocator_delete", (7,), [("caching_allocator_delete", 7)], None),
    (memory, "get_allocator_backend", (), [("allocator_backend",)], "allocator_backend"),
    (memory, "_allocation_traceback", (7,), [("allocation_traceback", 7)], "allocation_traceback"),
    (memory, "_set_memory_metadata", ("a",), [("set_memory_metadata", "a")], None),
    (memory, "_get_memory_metadata", (), [("get_memory_metadata",)], "get_memory_metadata"),
    (memory, "_record_memory_history", (), [("record_memory_history", "all", "all", "all", 2**63 - 1, False, [])], None),
    (memory, "_record_memory_history", (False,), [("record_memory_history", None, "all", "all", 2**63 - 1, False, [])], None),
    (memory, "_record_memory_history", (True, None), [("record_memory_history", "all", None, "all", 2**63 - 1, False, [])], None),
    (memory, "_record_memory_history", ("state", "alloc", "python", 5, 0, True, False, False, ["x"]),
     [("record_memory_history", "state", "alloc", "python", 5, True, ["x"])], None),
    (devices, "init", (), [INIT], None),
    (devices, "set_device", (1,), [("device_index", 1), ("set_device", 5)], None),
    (devices, "synchronize", (3,), [INIT, ("synchronize", 3)], None),
    (devices, "get_device_properties", (3,), [("get_device_properties", 3)], "get_device_properties"),
    (devices, "can_device_access_peer", (0, 1), [("can_device_access_peer", 0, 1)], "can_device_access_peer"),
    (devices, "ipc_collect", (), [("collect_shared",)], None),
    (devices, "utilization", (3,), [("utilization", 3)], "utilization"),
    (devices, "get_task_queue_enable", (), [("get_task_queue_enable",)], "get_task_queue_enable"),
    (devices, "set_task_queue_enable", (2,), [("set_task_queue_enable", 2)], None),
    (streams, "set_stream", ("s",), [("set_stream", "s")], None),
    (streams, "set_stream", (None,), [], None),
    (streams, "is_current_stream_capturing", (), [("is_current_stream_capturing",)], "is_current_stream_capturing"),
    (sync_debug, "set_sync_debug_mode", ("error",), [("set_sync_debug_mode", 2)], None),
    (sync_debug, "set_sync_debug_mode", (1,), [("set_sync_debug_mode", 1)], None),
    (sync_debug, "get_sync_debug_mode", (), [("get_sync_debug_mode",)], "get_sync_debug_mode"),
    (graphs, "graph_pool_handle", (), [("graph_pool_handle",)], "graph_pool_handle"),
    (utils, "get_cann_version", ("DRIVER",), [("package_version", 7)], "package_version"),
    (utils, "get_cann_version", (), [("package_version", 0)], "package_version"),
]


@pytest.mark.parametrize("row", CALLS, ids=lambda row: f"{row[1]}{row[2]}")
def test_what_is_asked_of_the_extension(extension, monkeypatch, row):
    module, name, arguments, asked, result = row
    made = extension(module, device_index=5)
    monkeypatch.setattr(memory, "is_initialized", lambda: True)
    assert getattr(module, name)(*arguments) == result and made.calls == asked


@pytest.mark.parametrize("name", ["empty_cache", "host_empty_cache", "empty_virt_addr_cache", "memory_stats", "host_memory_stats",
                                  "memory_stats_as_nested_dict", "host_memory_stats_as_nested_dict"])
def test_before_the_first_use_there_is_nothing_to_ask(extension, monkeypatch, name):
    made = extension(memory)
    monkeypatch.setattr(memory, "is_initialized", lambda: False)
    result = getattr(memory, name)()
    assert made.calls == [] and (result is None if name.startswith(("empty", "host_empty")) else result == {})


@pytest.mark.parametrize(("name", "key"), [
    ("memory_allocated", "allocated_bytes.all.current"), ("max_memory_allocated", "allocated_bytes.all.peak"),
    ("memory_reserved", "reserved_bytes.all.current"), ("max_memory_reserved", "reserved_bytes.all.peak"),
])
def test_numbers_of_the_statistics(monkeypatch, name, key):
    monkeypatch.setattr(memory, "memory_stats", lambda device: {key: 40 + device})
    assert getattr(memory, name)(2) == 42
    monkeypatch.setattr(memory, "memory_stats", lambda device: {})
    assert getattr(memory, name)(2) == 0
    old = name.replace("allocated", "").replace("reserved", "cached")
    if "reserved" in name:
        monkeypatch.setattr(memory, "memory_stats", lambda device: {key: 40 + device})
        with pytest.warns(FutureWarning, match=f"`torch.npu.{old}` has been renamed to `torch.npu.{name}`"):
            assert getattr(memory, old)(2) == 42


def test_where_raw_memory_may_be_used(extension, monkeypatch):
    made = extension(memory)
    monkeypatch.setattr(memory, "streams", SimpleNamespace(
        current_stream=lambda index: ("current", index), default_stream=lambda index: ("default", index),
        ExternalStream=lambda address, device: ("external", address, device)))
    for given, stream in ((None, ("current", (3, True))), (0, ("default", (3, True))), (9, ("external", 9, (3, True)))):
        made.calls.clear()
        assert memory.caching_allocator_alloc(512, 3, given) == "caching_allocator_alloc"
        assert made.calls == [INIT, ("caching_allocator_alloc", 512, stream)]
    for wrong in (True, "s", 1.5):
        with pytest.raises(TypeError, match="must be `torch.npu.Stream` or `int` representing a pointer to an existing stream"):
            memory.caching_allocator_alloc(512, 3, wrong)


def test_pools_are_entered_and_left(monkeypatch, extension):
    class Pool:
        id = (0, 7)

    made = extension(memory, _MemPool=Pool)
    monkeypatch.setattr(made, "_MemPool", Pool, raising=False)
    pool = Pool()
    with pytest.raises(KeyError), memory.use_mem_pool(pool, 3):
        made.calls.append("inside")
        raise KeyError
    assert made.calls == [("begin_allocate_current_thread_to_pool", (3, True), (0, 7)), "inside",
                          ("end_allocate_to_pool", (3, True), (0, 7)), ("release_pool", (3, True), (0, 7))]
    with pytest.raises(TypeError, match="pool must be a torch.npu.MemPool, got int"), memory.use_mem_pool(3):
        pass


def test_arguments_of_pools():
    for wrong in (1, None, "x"):
        for name in ("use_on_oom", "no_split"):
            with pytest.raises(TypeError, match=f"{name} must be True or False, got {wrong!r}"):
                memory.MemPool(**{name: wrong})
    with pytest.raises(TypeError, match="allocator must be what NPUPluggableAllocator.allocator.. gives, or None, got int"):
        memory.MemPool(3)
    with pytest.raises(TypeError, match="allocator must be a torch.npu.memory.NPUPluggableAllocator, got int"):
        memory.change_current_allocator(3)
    pool = memory.MemPool()
    assert pool.snapshot() == [] and memory.MemPool(None, True, True).id != pool.id


def test_snapshots(extension, monkeypatch, tmp_path):
    made = extension(memory, memory_snapshot={"segments": [1]})
    monkeypatch.setattr(memory, "_augment_memory_snapshot_stack_traces", lambda snapshot: ("augmented", snapshot))
    assert memory.memory_snapshot() == [1] == memory.memory_snapshot((0, 5)) == memory.memory_snapshot([0, 5], False)
    assert made.calls == [("memory_snapshot", (0, 0), {"with_traces": False})] + [("memory_snapshot", (0, 5), {"with_traces": False})] * 2
    for wrong in (5, (1, 2, 3), "ab"):
        with pytest.raises(TypeError, match="mempool_id must be the id of a torch.npu.MemPool, two numbers, got"):
            memory.memory_snapshot(wrong)
    assert memory._snapshot() == {"segments": [1]} and memory._snapshot(None, True) == ("augmented", {"segments": [1]})
    for augment, kept in ((False, {"segments": [1]}), (True, ("augmented", {"segments": [1]}))):
        memory._dump_snapshot(tmp_path / "file", augment)
        assert pickle.loads((tmp_path / "file").read_bytes()) == kept


def test_numbers_as_people_read_them():
    assert memory._bytes_cell(5, 768 * 1024 - 1) == "      5 B  " and memory._bytes_cell(5 << 10, 768 * 1024) == "      5 KiB"
    assert [memory._bytes_cell(3 << shift, 1 << shift + 15) for shift in (20, 30, 40)] == ["      3 MiB", "      3 GiB", "      3 TiB"]
    assert memory._bytes_cell(3 << 50, 1 << 70) == "   3072 TiB"
    assert memory._count_cell(7, 749999) == "      7    " and memory._count_cell(7000, 750000) == "      7 K  "
    assert memory._count_cell(7_000_000, 750_000_000) == "      7 M  " and memory._count_cell(8 * 10**9, 10**12) == "   8000 M  "
    assert memory._flatten({"b": {"y": 1, (0, 1): 2}, "a": 3, 5: {"z": {"q": 4}}}) == {"5.z.q": 4, "a": 3, "b.0_1": 2, "b.y": 1}
    assert list(memory._flatten({"b": 1, "a": 2})) == ["a", "b"]


def test_peaks_go_back_together(monkeypatch):
    done = []
    monkeypatch.setattr(memory, "reset_peak_memory_stats", done.append)
    for name in ("reset_max_memory_allocated", "reset_max_memory_cached"):
        words = f"torch.npu.{name} now calls torch.npu.reset_peak_memory_stats, which resets /all/"
        with pytest.warns(FutureWarning, match=words) as caught:
            getattr(memory, name)(3)
        assert caught[0].filename == __file__
    assert done == [3, 3]


# ---- Devices ----


def test_what_waits_for_the_first_use(monkeypatch):
    done, state = [], [False]
    monkeypatch.setattr(devices, "is_initialized", lambda: state[0])
    monkeypatch.setattr(devices, "_queued_calls", [])
    monkeypatch.setattr(devices, "_C", SimpleNamespace(init=lambda: done.append("init"), is_softnpu=lambda: True, cann_version=lambda: "9"))
    monkeypatch.setattr("torch_npu.utils._compatibility.warn_if_unpaired", lambda version: done.append(version))
    devices._lazy_call(lambda: done.append("first"))
    devices._lazy_call(lambda: (done.append("second"), devices._queued_calls.append(lambda: done.append("third"))))
    assert done == []
    devices._lazy_init()
    assert done == ["init", "first", "second", "third"] and devices._queued_calls == []
    done.clear()
    devices._C.is_softnpu = lambda: False
    devices._lazy_init()
    assert done == ["init", "9"]
    state[0] = True
    done.clear()
    devices._lazy_init()
    devices._lazy_call(lambda: done.append("now"))
    assert done == ["now"]


def test_a_context_of_a_card_changes_back(extension):
    made = extension(devices, device_index=2, exchange_device=7)
    context = devices.device("npu:2")
    assert (context.idx, context.prev_idx, made.calls) == (2, -1, [("device_index", "npu:2")])
    with context:
        assert made.calls[1:] == [("exchange_device", 2)] and context.prev_idx == 7
    assert made.calls[2:] == [("maybe_exchange_device", 7)]
    made = extension(devices, device_index=-1)
    with devices.device(None):
        pass
    assert made.calls == [("device_index", None)]
    made = extension(devices, device_index=0, exchange_device=1)
    with devices.device_of(SimpleNamespace(is_npu=True, get_device=lambda: 4)), devices.device_of(SimpleNamespace(is_npu=False)):
        pass
    assert [call for call in made.calls if call[0] == "device_index"] == [("device_index", 4), ("device_index", -1)]
    assert [call[0] for call in made.calls].count("exchange_device") == 2


def test_which_card_an_argument_means(extension, monkeypatch):
    monkeypatch.setattr(devices, "current_device", lambda: 6)
    made = Extension(device_index=3)
    monkeypatch.setattr(devices, "_C", made)
    assert devices._get_device_index("npu:3") == 3 == devices._get_device_index("npu:3", True)
    assert devices._get_device_index("cpu", allow_cpu=True) == -1 and devices._get_device_index(torch.device("cpu"), True, True) == -1
    assert devices._get_device_index(3, False, True) == 3 == devices._get_device_index("npu:3", False, True)
    made.answers["device_index"] = -1
    assert devices._get_device_index(-1) == -1
    assert devices._get_device_index(None, True) == 6 == devices._get_device_index("npu", True, True)
    assert devices._get_device_index(None, optional=True, allow_cpu=True) == 6
    with pytest.raises(ValueError, match="Expected a torch.device with a specified index or an integer, but got: npu"):
        devices._get_device_index("npu")


def test_properties_by_name_or_by_keyword(extension):
    made = extension(devices, get_device_properties=SimpleNamespace(name="Ascend910B1", bf16=True))
    assert devices.get_device_name(1) == "Ascend910B1" == devices.get_device_name(device=2) == devices.get_device_name(1, device=2)
    devices.get_device_properties(1, device=0)
    assert [call[1] for call in made.calls] == [1, 2, 2, 0]
    assert devices.is_bf16_supported() is True is devices.is_bf16_supported(True)
    made.answers["get_device_properties"] = SimpleNamespace(bf16=False)
    assert devices.is_bf16_supported() is False


@pytest.mark.parametrize(("initialised", "forked", "answer"), [(True, False, True), (True, True, False), (False, False, False)])
def test_a_fork_has_not_begun(monkeypatch, initialised, forked, answer):
    monkeypatch.setattr(devices, "_C", SimpleNamespace(is_initialized=lambda: initialised, is_in_bad_fork=lambda: forked))
    assert devices.is_initialized() is answer


# ---- Streams ----


def test_keywords_of_streams(monkeypatch):
    made = Extension()
    monkeypatch.setattr(streams, "_C", made)
    kind = streams.Stream
    for call, asked in ((lambda: kind.__new__(kind), ("new_stream", kind, None, 0)),
                        (lambda: kind.__new__(kind, 1, -1), ("new_stream", kind, 1, -1)),
                        (lambda: kind.__new__(kind, stream_id=5, device_index=1, device_type=20), ("wrap_stream_id", kind, 5, 1)),
                        (lambda: streams.ExternalStream.__new__(streams.ExternalStream, 9), ("new_external_stream", streams.ExternalStream,
                                                                                             9, None)),
                        (lambda: streams.ExternalStream.__new__(streams.ExternalStream, 9, 1), ("new_external_stream",
                                                                                                streams.ExternalStream, 9, 1))):
        made.calls.clear()
        call()
        assert made.calls == [asked]
    for arguments, options, words in (((), {"stream_id": 5}, "Stream: stream_id needs device_index beside it"),
                                      ((), {"stream_id": 5, "device_index": 1, "x": 2}, "Stream.. got an unexpected keyword argument 'x'"),
                                      ((), {"device_index": 1}, "Stream.. got an unexpected keyword argument 'device_index'"),
                                      ((None, True), {}, "Stream: priority must be an int, got bool"),
                                      ((None, "1"), {}, "Stream: priority must be an int, got str")):
        with pytest.raises(TypeError, match=words):
            kind.__new__(kind, *arguments, **options)
    for wrong in (True, "9", None):
        with pytest.raises(TypeError, match=f"ExternalStream: stream_ptr must be the address of an aclrtStream, an int, got "
                                            f"{type(wrong).__name__}"):
            streams.ExternalStream.__new__(streams.ExternalStream, wrong)
    with pytest.raises(TypeError, match="ExternalStream.. got an unexpected keyword argument 'x'"):
        streams.ExternalStream.__new__(streams.ExternalStream, 9, x=1)
    made.answers["get_task_queue_enable"] = 2
    with pytest.raises(RuntimeError, match="the task queue is at level 2 and takes the launches of all streams"):
        streams.SyncLaunchStream.__new__(streams.SyncLaunchStream)
    made.answers["get_task_queue_enable"] = 0
    made.calls.clear()
    streams.SyncLaunchStream.__new__(streams.SyncLaunchStream, 1, -1)
    assert made.calls[1:] == [("new_stream", streams.SyncLaunchStream, 1, -1)]


def test_events_go_to_the_stream_that_is_named():
    asked = []

    class Event:
        def wait(self, stream):
            asked.append(("wait", stream))

        def record(self, stream):
            asked.append(("record", stream))

    one, two, event = torch.npu.Stream(), torch.npu.Stream(), Event()
    one.wait_event(event)
    assert one.record_event(event) is event and asked == [("wait", one), ("record", one)]
    made = one.record_event()
    assert isinstance(made, torch.npu.Event) and made.npu_event
    one.wait_stream(SimpleNamespace(record_event=lambda: event))
    assert asked[2:] == [("wait", one)]
    assert one.set_data_preprocess_stream() is None is one.set_data_preprocess_stream(False)
    with pytest.raises(NotImplementedError, match=r"Stream.set_data_preprocess_stream\(True\) is not supported"):
        one.set_data_preprocess_stream(True)
    assert (one == two) is False and (one != two) is True and (one == 5) is False and hash(one) == hash(torch.npu.Stream(
        stream_id=one.stream_id, device_index=one.device_index, device_type=one.device_type))
    with pytest.raises(TypeError, match="stream must be a torch.npu.Stream or None, got str"):
        torch.npu.stream("s")


def test_streams_by_their_numbers(monkeypatch):
    seen = []
    monkeypatch.setattr(streams, "set_stream", seen.append)
    stream = torch.npu.Stream()
    streams._npu_setStream(stream.stream_id, stream.device_index, 20)
    assert seen == [stream] and torch_npu._C._npu_setStream is streams._npu_setStream
    streams._npu_setStream()
    assert seen[1].stream_id == 0 and seen[1].device_index == 0


# ---- Random numbers, overflow, determinism, versions ----


class Generator:
    def __init__(self, index, log):
        self.index, self.log = index, log

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments: self.log.append((self.index, name, *arguments)) or (self.index, name)


def test_which_generator_is_asked(monkeypatch):
    log = []
    monkeypatch.setattr(random, "_C", SimpleNamespace(default_generator=lambda index: Generator(index, log),
                                                      device_index=lambda device: {"npu:1": 1, 1: 1, 0: 0}.get(device, -1)))
    monkeypatch.setattr(random, "device_count", lambda: 2)
    monkeypatch.setattr(random, "current_device", lambda: 1)
    for call, asked in ((lambda: random.get_rng_state(), [(1, "get_state")]), (lambda: random.get_rng_state(0), [(0, "get_state")]),
                        (lambda: random.set_rng_state("s", 0), [(0, "set_state", "s")]),
                        (lambda: random.set_rng_state("s"), [(1, "set_state", "s")]),
                        (lambda: random.get_rng_state_all(), [(0, "get_state"), (1, "get_state")]),
                        (lambda: random.set_rng_state_all(["a", "b"]), [(0, "set_state", "a"), (1, "set_state", "b")]),
                        (lambda: random.manual_seed(5.0), [(1, "manual_seed", 5)]), (lambda: random.seed(), [(1, "seed")]),
                        (lambda: random.manual_seed_all(7), [(0, "manual_seed", 7), (1, "manual_seed", 7)]),
                        (lambda: random.initial_seed(), [(1, "initial_seed")]),
                        (lambda: random._set_rng_state_offset(8, 0), [(0, "set_offset", 8)]),
                        (lambda: random._get_rng_state_offset("npu:1"), [(1, "get_offset")])):
        log.clear()
        call()
        assert log == asked
    assert random.get_rng_state(0) == (0, "get_state") and random.initial_seed() == (1, "initial_seed")
    assert random.get_rng_state_all() == [(0, "get_state"), (1, "get_state")]
    assert random._get_rng_state_offset() == (1, "get_offset")
    assert random.get_default_generator(1).index == 1
    for wrong, error, words in ((2, ValueError, "device_index 2 is not a card: this process sees 2"), (-1, ValueError, "index -1 is"),
                                (True, TypeError, "device_index must be an int, but got bool"), ("0", TypeError, "but got str")):
        with pytest.raises(error, match=words):
            random.get_default_generator(wrong)
    monkeypatch.setattr(random, "device_count", lambda: 0)
    log.clear()
    for call in (lambda: random.manual_seed(1), random.seed, random.seed_all, lambda: random.manual_seed_all(1)):
        call()
    assert log == []


def test_one_random_number_for_all(monkeypatch):
    seeded = []
    monkeypatch.setattr(random, "default_generators", lambda: (SimpleNamespace(seed=lambda: 42), None))
    monkeypatch.setattr(random, "manual_seed_all", seeded.append)
    random.seed_all()
    assert seeded == [42]


def test_what_counts_as_an_overflow():
    inf, nan = float("inf"), float("nan")
    for value, overflowed in ((1, False), (1.5, False), (inf, True), (nan, True), (torch.tensor([1.0, nan]), True), (torch.ones(2), False)):
        assert overflow.npu_check_overflow(value) is overflowed
    with pytest.raises(TypeError, match="grad must be a tensor or a number, got str"):
        overflow.npu_check_overflow("1")
    assert overflow.is_support_inf_nan() is True and overflow.is_force_overflow_check() is False
    with pytest.raises(RuntimeError, match="has no overflow flag; use torch.npu.utils.npu_check_overflow"):
        overflow.get_npu_overflow_flag()
    with pytest.warns(UserWarning, match="remove clear_npu_overflow_flag") as caught:
        overflow.clear_npu_overflow_flag()
    assert caught[0].filename == __file__


def test_levels_of_determinism(monkeypatch):
    told = []
    monkeypatch.setattr(deterministic, "_C", SimpleNamespace(set_deterministic_level=told.append))
    monkeypatch.setattr(torch, "use_deterministic_algorithms", told.append)
    for level, asked in ((0, [1, False]), (1, [1, True]), (2, [2, True]), (3, [3, True])):
        told.clear()
        deterministic.set_deterministic_level(level)
        assert told == asked
    for wrong in (-1, 4, True, "1", 1.0):
        with pytest.raises(ValueError, match=f"set_deterministic_level: level must be 0, 1, 2 or 3, got {wrong!r}"):
            deterministic.set_deterministic_level(wrong)


def test_versions_are_in_order(monkeypatch):
    order = ["8.2.9", "8.3", "8.3.alpha3", "8.3.beta1", "8.3.RC1", "8.3.RC2", "8.3.0", "8.3.1", "8.10", "9.0.rc1"]
    keys = [utils._version_key(text) for text in order]
    assert keys == sorted(keys) and len(set(keys)) == len(keys)
    assert utils._version_key("CANN-8.3.0.5") == utils._version_key("8.3.0")
    assert utils._version_key("8.3.T1") == utils._version_key("8.3.beta1") and utils._version_key("none") == () == utils._version_key("8")
    for there, wanted, answer in (("8.3.RC1", "8.3.RC1", True), ("8.3.RC1", "8.3.0", False), ("8.3.0", "8.3.RC1", True),
                                  ("", "8.0", False)):
        monkeypatch.setattr(utils, "get_cann_version", lambda module, there=there: there if module == "OPP" else "1.0")
        assert utils._is_gte_cann_version(wanted, "OPP") is answer
    assert utils._is_gte_cann_version("1.0") is True
    with pytest.raises(ValueError, match='version must be a version such as "8.3.RC1", got \'x\''):
        utils._is_gte_cann_version("x")
