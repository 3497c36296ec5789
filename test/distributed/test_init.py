"""Ways to start: addresses, default backend, launchers, other kinds of groups."""

import os
import socket
import subprocess
import sys
from importlib.metadata import entry_points

import elastic_cases
import fault_cases as cases
import pytest
from world import World, free_port

HAS_IPV6 = socket.has_ipv6 and os.path.exists("/proc/net/if_inet6")


@pytest.fixture(scope="module")
def bare():
    with World(2, cases.ready) as world:
        yield world


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_addresses(bare, host):
    if host == "[::1]" and not HAS_IPV6:
        pytest.skip("no IPv6 here")
    port = free_port(socket.AF_INET6 if host == "[::1]" else socket.AF_INET)
    for value, seconds in bare.run(cases.init_only, f"tcp://{host}:{port}", timeout=60):
        assert value == 2.0 and seconds < 10


def test_environment(bare):
    for value, seconds in bare.run(cases.init_only, "env://", timeout=60):
        assert value == 2.0 and seconds < 10


def test_default_backend_is_hccl_for_npu_and_gloo_for_cpu():
    with World(2) as world:
        for names, x, y in world.run(cases.default_backend):
            assert names == ["hccl", "gloo"] and x == [2.0, 2.0] and y == [2.0, 2.0]


def test_environment_with_ipv6(bare):
    port = free_port(socket.AF_INET6)
    for value, seconds in bare.run(cases.init_only, "env://", {"MASTER_ADDR": "::1", "MASTER_PORT": str(port)}, timeout=60):
        assert value == 2.0 and seconds < 10


def test_localhost_that_is_ipv6_first(tmp_path):
    """A hosts file of its own, in a mount namespace."""
    hosts = tmp_path / "hosts"
    hosts.write_text("::1 localhost\n127.0.0.1 localhost\n")
    user = [] if os.geteuid() == 0 else ["-r"]
    inside = ["unshare", *user, "-m", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh"]
    if not HAS_IPV6 or subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
        pytest.skip("needs IPv6 and mount namespaces")
    resolved = subprocess.run([*inside, "getent", "hosts", "localhost"], capture_output=True, text=True).stdout
    assert resolved.startswith("::1")
    with World(2, cases.ready, inside=lambda rank: inside) as world:
        method = f"tcp://localhost:{free_port(socket.AF_INET6)}"
        for value, seconds in world.run(cases.init_only, method, timeout=60):
            assert value == 2.0 and seconds < 10


def test_eight_ranks():
    """The call of the README, in eight processes."""
    method = f"tcp://127.0.0.1:{free_port()}"
    with World(8, cases.ready) as world:
        assert [value for value, _ in world.run(cases.init_only, method, timeout=120)] == [8.0] * 8


@pytest.mark.parametrize(("launcher", "kind"), [("torch.distributed.run", "ddp"), ("torch_npu.distributed.run", "fsdp2")])
def test_training_goes_on_after_the_launcher_restarts_a_killed_worker(pair, tmp_path, launcher, kind):
    """From its checkpoint, with the losses of an undisturbed run."""
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    undisturbed.mkdir()
    killed.mkdir()
    pair.run(elastic_cases.train, kind, str(undisturbed))
    environment = {**os.environ, "SOFTNPU_MEMORY": "1G", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", launcher, "--nproc-per-node=2", "--max-restarts=1", "--standalone"]
    command += [elastic_cases.__file__, kind, str(killed)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, cwd=tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr[-3000:]
    expected, seen = elastic_cases.losses(undisturbed), elastic_cases.losses(killed)
    assert sorted(seen) == list(range(elastic_cases.STEPS))
    assert [seen[step]["resumed"] for step in sorted(seen)] == [step >= elastic_cases.KILLED for step in sorted(seen)]
    assert {step: seen[step]["loss"] for step in seen} == {step: expected[step]["loss"] for step in expected}


def test_torch_npu_run_is_the_launcher_that_the_wheel_installs():
    from torch_npu.distributed import run

    (script,) = entry_points(group="console_scripts", name="torch_npu_run")
    assert script.load() is run._main


def test_rpc_with_npu_tensors_is_refused_in_one_sentence():
    with World(2) as world:
        cpu, error = world.run(cases.rpc)[0]
        assert cpu == [2.0, 2.0]
        assert "only supports CPU tensors" in error and "npu:0" in error


def test_split_group():
    with World(4) as world:
        for x, ranks, outside in world.run(cases.split):
            assert x == [2.0] and len(ranks) == 2 and outside == 1.0


def test_data_parallel_is_refused():
    import torch

    import torch_npu  # noqa: F401

    with pytest.raises(RuntimeError, match="DistributedDataParallel"):
        torch.nn.DataParallel(torch.nn.Linear(2, 2))
