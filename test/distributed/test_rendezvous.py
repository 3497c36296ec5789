"""torch_npu.distributed.ParallelStore: the official store's arguments, over torch's."""

import inspect
from datetime import timedelta

import pytest
from torch.distributed import DistNetworkError, DistStoreError

from torch_npu.distributed import ParallelStore

SHORT = timedelta(seconds=1)


def test_arguments_of_the_official_store():
    """As its documentation string gives them."""
    expected = {"host": "127.0.0.1", "port": 29500, "world_size": -1, "agent_run": False, "agent_pid": -1, "is_server": False,
                "enable_tiered": False, "timeout": timedelta(seconds=300), "wait_workers": True, "multi_tenant": False}
    assert {name: p.default for name, p in inspect.signature(ParallelStore).parameters.items()} == expected


def test_a_client_reads_what_the_server_was_told():
    server = ParallelStore("127.0.0.1", 0, is_server=True, timeout=SHORT)
    assert server.host == "127.0.0.1" and server.port > 0 and server.timeout == SHORT
    server.set("key", "value")
    assert ParallelStore("127.0.0.1", server.port).get("key") == b"value"
    assert ParallelStore("127.0.0.1", server.port, 0).get("key") == b"value"  # of a world of any size


def test_a_server_waits_for_as_many_workers_as_it_is_told():
    with pytest.raises(DistStoreError, match="1/2"):
        ParallelStore("127.0.0.1", 0, 2, is_server=True, timeout=SHORT)
    server = ParallelStore("127.0.0.1", 0, 2, is_server=True, timeout=SHORT, wait_workers=False)
    assert ParallelStore("127.0.0.1", server.port, 2, timeout=SHORT).timeout == SHORT


def test_stores_of_several_tenants_share_a_server():
    first = ParallelStore("127.0.0.1", 0, is_server=True, multi_tenant=True)
    second = ParallelStore("127.0.0.1", first.port, is_server=True, multi_tenant=True)
    first.set("key", "value")
    assert second.get("key") == b"value"
    with pytest.raises(DistNetworkError, match="EADDRINUSE"):
        ParallelStore("127.0.0.1", first.port, is_server=True, timeout=SHORT)
