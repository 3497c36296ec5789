"""The backend "hccl" and reinit_process_group without other ranks: what is refused, and what is called in which case."""

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

import torch_npu
from torch_npu.distributed import backend, distributed_c10d, run, uneven


class Backend:
    def __init__(self, failure=None):
        self.found, self.calls = failure, []

    def failure(self):
        return self.found

    def rebuild(self):
        self.calls.append("rebuild")


@pytest.fixture
def given(monkeypatch):
    waits = []
    monkeypatch.setattr(distributed_c10d, "npu", SimpleNamespace(synchronize=lambda: waits.append(1)))

    def give(made):
        monkeypatch.setattr(distributed_c10d, "hccl_backend", lambda group: made)
        return made

    return give, waits


def test_communicators_are_rebuilt_behind_what_is_running(given, monkeypatch):
    give, waits = given
    made = give(Backend("broken"))
    distributed_c10d.reinit_process_group()
    assert made.calls == ["rebuild"] and waits == [1]

    def fail():
        raise RuntimeError("the failure that led here")

    monkeypatch.setattr(distributed_c10d, "npu", SimpleNamespace(synchronize=fail))
    distributed_c10d.reinit_process_group("a group", True)
    assert made.calls == ["rebuild"] * 2


def test_communicators_that_work_are_kept(given):
    give, waits = given
    made = give(Backend())
    distributed_c10d.reinit_process_group(rebuild_link=False)
    assert made.calls == [] and waits == []
    give(Backend("broken"))
    with pytest.raises(RuntimeError, match="softnpu cannot resume communicators: call reinit_process_group"):
        distributed_c10d.reinit_process_group(None, False)
    give(object())
    with pytest.raises(RuntimeError, match="A group between hosts on softnpu cannot be rebuilt"):
        distributed_c10d.reinit_process_group()


def test_hccl_is_there_where_torch_and_a_provider_are(monkeypatch):
    assert distributed_c10d.is_hccl_available() is True
    monkeypatch.setattr(distributed_c10d._C, "is_available", lambda: False)
    assert distributed_c10d.is_hccl_available() is False
    monkeypatch.undo()
    monkeypatch.setattr(dist, "is_available", lambda: False)
    assert distributed_c10d.is_hccl_available() is False


def test_options_of_another_backend_are_refused():
    with pytest.raises(TypeError, match="pg_options for hccl must be ProcessGroupHCCL.Options, got dict"):
        backend._create(None, {})


class Store(dict):
    set, get = dict.__setitem__, dict.__getitem__


@pytest.mark.parametrize("soft, transport, size, others, expected", [
    (False, "gloo", 2, [b"b"], False), (True, "gloo", 1, [], True), (True, "", 1, [], False), (True, "", 2, [b"a"], False),
    (True, "", 2, [b"b"], True), (True, "", 3, [b"a", b"b"], True)])
def test_groups_between_hosts_use_gloo(soft, transport, size, others, expected, monkeypatch):
    monkeypatch.setattr(backend, "_C", SimpleNamespace(is_softnpu=lambda: soft, _hccl_transport=lambda: transport))
    monkeypatch.setattr(backend, "_host", lambda: b"a")
    store = Store({f"host/{rank}": host for rank, host in enumerate(others, 1)})
    assert backend._needs_gloo(store, 0, size) is expected
    assert ("host/0" in store) is (soft and transport != "gloo" and size > 1)


def test_the_host_is_the_boot_and_the_network():
    boot, network = backend._host().split()
    assert boot.count("-") == 4 and int(network) > 0 and backend._host() == backend._host()


@pytest.mark.parametrize("name, device, checked", [
    ("bf16_compress_hook", "npu", False), ("bf16_compress_wrapper_hook", "npu", False), ("bf16_compress_hook", "cuda", True),
    ("other", "npu", True)])
def test_gradients_may_be_compressed_to_bfloat16(name, device, checked, monkeypatch):
    seen = []
    monkeypatch.setattr(backend, "_upstream_check_comm_hook", lambda self, hook: seen.append(hook))
    hook = type(name, (), {})
    backend._check_comm_hook(SimpleNamespace(device_type=device), hook)
    assert (seen == [hook]) is checked
    backend._check_comm_hook(SimpleNamespace(device_type="npu"), object())
    assert len(seen) == 1 + checked


def test_the_backend_of_a_group():
    class Group:
        def _get_backend(self, device):
            return device

    assert str(backend.hccl_backend(Group())) == "npu"


@pytest.mark.parametrize("given, cpu", [(None, "gloo"), ("hccl", None), ("gloo", "gloo"), ("npu:hccl,cpu:mpi", "mpi")])
def test_tensors_of_the_cpu_have_gloo_where_nothing_is_said(given, cpu):
    found = dist.distributed_c10d.BackendConfig(dist.Backend(given) if given else dist.Backend.UNDEFINED).device_backend_map
    assert found.get("npu") == (None if given == "gloo" else "hccl") and found.get("cpu") == cpu


# ---- How a backend is made ----


class Made:
    """Keeps what it was made with."""

    def __init__(self, *given, **options):
        self.given, self.options, self.numbered = given, options, 0

    def _set_sequence_number_for_group(self):
        self.numbered += 1


class Options(Made):
    pass


@pytest.fixture
def making(monkeypatch):
    group = type("Group", (Made,), {"Options": Options})
    monkeypatch.setattr(backend, "backend_module", lambda: SimpleNamespace(ProcessGroupHCCL=group, StagedBackend=Made))
    monkeypatch.setattr(dist, "PrefixStore", lambda name, store: (name, store))
    monkeypatch.setattr(dist, "ProcessGroupGloo", Made)
    monkeypatch.delenv("TORCHELASTIC_RESTART_COUNT", raising=False)
    return SimpleNamespace(timeout=7, group_id="id", global_ranks_in_group=[4, 5], store="store", group_rank=1, group_size=2)


@pytest.mark.parametrize("given", [None, Options()])
def test_a_group_gets_its_options_and_a_store_of_the_attempt(making, monkeypatch, given):
    monkeypatch.setattr(backend, "_needs_gloo", lambda *asked: asked != (("attempt/0", "store"), 1, 2))
    store, rank, size, options = backend._create(making, given).given
    assert (store, rank, size) == (("attempt/0", "store"), 1, 2) and (given is None or options is given)
    assert (options._timeout, options.group_name, options.global_ranks_in_group) == (7, "id", [4, 5])
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "3")
    monkeypatch.setattr(backend, "_needs_gloo", lambda *asked: False)
    assert backend._create(making, given).given[0] == ("attempt/3", "store")


def test_a_group_between_hosts_stands_on_gloo(making, monkeypatch):
    monkeypatch.setattr(backend, "_needs_gloo", lambda *asked: True)
    inner, name = backend._create(making, None).given
    assert name == "hccl" and inner.numbered == 1
    assert inner.given == (("gloo", ("attempt/0", "store")), 1, 2) and inner.options == {"timeout": 7}


def test_what_registration_leaves_behind():
    assert dist.is_hccl_available is distributed_c10d.is_hccl_available and dist.Backend.HCCL == "hccl"
    assert dist.Backend.backend_capability["hccl"] == ["npu"] and dist.Backend.default_device_backend_map["npu"] == "hccl"
    assert backend.backend_module() is torch_npu._C._distributed_c10d and backend.backend_module().ProcessGroupHCCL


def test_the_backend_of_the_whole_world(monkeypatch):
    monkeypatch.setattr(dist, "group", SimpleNamespace(WORLD=SimpleNamespace(_get_backend=lambda device: ("world", device.type))))
    assert backend.hccl_backend() == ("world", "npu")


# ---- Names ----


@pytest.mark.parametrize("there", [(True, True), (True, False), (False, True)])
def test_distributed_is_there_with_torchs_and_a_card(monkeypatch, there):
    monkeypatch.setattr(dist, "is_available", lambda: there[0])
    monkeypatch.setattr(torch_npu.npu, "is_available", lambda: there[1])
    assert torch_npu.distributed.is_available() is all(there)


def test_modules_are_loaded_when_they_are_asked_for():
    from torch_npu.distributed import fsdp, pipelining, rendezvous

    assert torch_npu.distributed.__getattr__("fsdp") is fsdp and torch_npu.distributed.__getattr__("pipelining") is pipelining
    assert torch_npu.distributed.ParallelStore is rendezvous.ParallelStore and fsdp.fully_shard is torch.distributed.fsdp.fully_shard
    with pytest.raises(AttributeError, match="module 'torch_npu.distributed' has no attribute 'nothing'"):
        _ = torch_npu.distributed.nothing


@pytest.mark.parametrize(("arguments", "rendezvous"), [
    ([], "static"), (["--rdzv-backend=parallel"], "static"), (["--rdzv-backend=parallel", "--rdzv-endpoint=h:1"], "c10d"),
    (["--rdzv-backend=etcd", "--rdzv-endpoint=h:1"], "etcd"), (["--rdzv-backend=c10d"], "c10d")])
def test_options_of_the_official_launcher(arguments, rendezvous):
    for tiered in ([], ["--enable_tiered_parallel_tcpstore=true"], ["--enable-tiered-parallel-tcpstore", "true"]):
        parsed = run.parse_args([*arguments, *tiered, "program.py", "--own"])
        assert parsed.rdzv_backend == rendezvous and parsed.training_script == "program.py" and parsed.training_script_args == ["--own"]
        assert parsed.enable_tiered_parallel_tcpstore == ("true" if tiered else "false")


def test_the_launcher_takes_the_command_line(monkeypatch):
    ran = []
    monkeypatch.setattr(run, "run", ran.append)
    monkeypatch.setattr(run, "parse_args", lambda arguments: ("parsed", arguments))
    monkeypatch.setattr(run.sys, "argv", ["torch_npu_run", "a", "b"])
    run._main()
    run._main(["c"])
    assert ran == [("parsed", ["a", "b"]), ("parsed", ["c"])]


# ---- Shares of different size ----


class Work:
    waited = 0

    def wait(self):
        self.waited += 1


@pytest.mark.parametrize("waits", [False, True])
def test_shares_are_handed_over_and_waited_for(monkeypatch, waits):
    asked, work = [], Work()
    made = SimpleNamespace(allgather_uneven=lambda *given: asked.append(("gather", *given)) or work,
                           reduce_scatter_uneven=lambda *given: asked.append(("reduce", *given)) or work)
    monkeypatch.setattr(uneven, "hccl_backend", lambda group: asked.append(group) or made)
    result = uneven.all_gather_into_tensor_uneven("out", "in", [1, 2], "group", not waits)
    assert asked == ["group", ("gather", "out", "in", [1, 2], not waits)] and (result, work.waited) == ((None, 1) if waits else (work, 0))
    asked.clear()
    result = uneven.reduce_scatter_tensor_uneven("out", "in", None, dist.ReduceOp.MAX, "group", not waits)
    (_, (_, out, given, sizes, op, later)) = asked
    assert (out, given, sizes, later) == ("out", "in", [], not waits) and op == dist.ReduceOp.MAX and isinstance(op, dist.ReduceOp)
    assert (result, work.waited) == ((None, 2) if waits else (work, 0))


def test_shares_by_default(monkeypatch):
    asked = []
    made = SimpleNamespace(allgather_uneven=lambda *given: asked.append(given) or Work(),
                           reduce_scatter_uneven=lambda *given: asked.append(given) or Work())
    monkeypatch.setattr(uneven, "hccl_backend", lambda group: made)
    assert uneven.all_gather_into_tensor_uneven(1, 2) is None is uneven.reduce_scatter_tensor_uneven(1, 2)
    assert asked[0] == (1, 2, [], False) and asked[1][3] == dist.ReduceOp.SUM and asked[1][4] is False


def test_rows_and_columns_of_a_matrix_of_counts(monkeypatch):
    asked = []
    monkeypatch.setattr(dist, "get_rank", lambda group: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda group: 2)
    monkeypatch.setattr(dist, "all_to_all_single", lambda *given, **options: asked.append((given, options)) or "work")
    for matrix in ([[1, 2], [3, 4]], torch.tensor([1, 2, 3, 4])):
        assert uneven.all_to_all_vc("out", "in", matrix, "group", True) == "work"
        assert asked.pop() == (("out", "in", [2, 4], [3, 4]), {"group": "group", "async_op": True})
    uneven.all_to_all_vc("out", "in", [[1, 2], [3, 4]])
    assert asked.pop()[1] == {"group": None, "async_op": False}
