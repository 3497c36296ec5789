"""The backend "hccl" and reinit_process_group without other ranks: what is refused, and what is called in which case."""

from types import SimpleNamespace

import pytest
import torch.distributed as dist

import torch_npu  # noqa: F401
from torch_npu.distributed import backend, distributed_c10d


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
