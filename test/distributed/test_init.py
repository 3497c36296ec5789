"""Ways to start: addresses, default backend, launchers."""

import os
import socket
import subprocess
import sys

import fault_cases as cases
import pytest
from world import World, free_port

HAS_IPV6 = socket.has_ipv6 and os.path.exists("/proc/net/if_inet6")


@pytest.fixture(scope="module")
def bare():
    with World(2) as world:
        yield world


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_addresses(bare, host):
    if host == "[::1]" and not HAS_IPV6:
        pytest.skip("no IPv6 here")
    port = free_port(socket.AF_INET6 if host == "[::1]" else socket.AF_INET)
    for value, _ in bare.run(cases.init_only, f"tcp://{host}:{port}", timeout=60):
        assert value == 2.0


def test_environment(bare):
    for value, _ in bare.run(cases.init_only, "env://", timeout=60):
        assert value == 2.0


def test_default_backend_is_hccl_for_npu_and_gloo_for_cpu():
    with World(2) as world:
        for names, x, y in world.run(cases.default_backend):
            assert names == ["hccl", "gloo"] and x == [2.0, 2.0] and y == [2.0, 2.0]


SCRIPT = """
import os, torch, torch_npu, torch.distributed as dist
dist.init_process_group("hccl")
torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
x = torch.ones(1, device="npu")
dist.all_reduce(x)
marker = os.path.join(os.environ["FOLDER"], "failed")
if os.environ.get("FAIL") and dist.get_rank() == 1 and not os.path.exists(marker):
    open(marker, "w").close()
    os.kill(os.getpid(), 9)
dist.barrier()
if dist.get_rank() == 0:
    print("sum", x.item(), "restarts", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("launcher", ["torch.distributed.run", "torch_npu.distributed.run"])
def test_launcher_restarts_after_a_killed_worker(tmp_path, launcher):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "FAIL": "1", "FOLDER": str(tmp_path), "SOFTNPU_MEMORY": "1G", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", launcher, "--nproc-per-node=2", "--max-restarts=1", "--standalone", str(script)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, cwd=tmp_path)
    assert "sum 2.0 restarts 1" in process.stdout, process.stdout + process.stderr[-3000:]


def test_data_parallel_is_refused():
    import torch

    import torch_npu  # noqa: F401

    with pytest.raises(RuntimeError, match="DistributedDataParallel"):
        torch.nn.DataParallel(torch.nn.Linear(2, 2))
