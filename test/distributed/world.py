"""Processes that are the ranks of a group. They stay, so that importing torch is paid once: `World(4).run(function, *args)`
calls function(*args) in every rank and returns what they return. The function must be importable from this folder.
"""

import importlib
import os
import socket
import subprocess
import sys
import time
import traceback
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

HERE = Path(__file__).parent


def free_port(family=socket.AF_INET) -> int:
    with socket.socket(family) as probe:
        probe.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        return probe.getsockname()[1]


class RankError(AssertionError):
    """What ranks raised: `errors` maps a rank to its traceback."""

    def __init__(self, errors):
        self.errors = errors
        super().__init__("\n".join(f"--- rank {rank} ---\n{text}" for rank, text in errors.items()))


class World:
    """`start`: an importable function that every rank calls first; None leaves the ranks bare. `inside`: rank -> a command
    in which the rank runs, for instance another namespace."""

    def __init__(self, size: int, start=None, environment=None, inside=lambda rank: []):
        self.size, self.connections, self.processes = size, [], []
        port = free_port()
        for rank in range(size):
            ours, theirs = Pipe()
            variables = {
                **os.environ,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": "1",
                "SOFTNPU_MEMORY": os.environ.get("SOFTNPU_MEMORY", "1G"),
                "TORCH_NPU_FALLBACK_CPU_DISABLE": "1",
                **(environment or {}),
            }
            command = [*inside(rank), sys.executable, __file__, str(theirs.fileno())]
            self.processes.append(subprocess.Popen(command, pass_fds=[theirs.fileno()], env=variables, cwd="/"))
            theirs.close()
            self.connections.append(ours)
        if start is not None:
            self.run(start, timeout=600)

    def send(self, function, *args, ranks=None):
        for rank in ranks if ranks is not None else range(self.size):
            self.connections[rank].send((function.__module__, function.__qualname__, args))

    def receive(self, rank: int, timeout: float = 120.0):
        """("ok", value), ("error", traceback) or ("gone", exit status)."""
        connection = self.connections[rank]
        try:
            if not connection.poll(timeout):
                return "error", f"no answer within {timeout} s"
            return connection.recv()
        except (EOFError, ConnectionError):
            return "gone", self.processes[rank].wait(10)

    def run(self, function, *args, timeout: float = 120.0):
        self.send(function, *args)
        replies = []
        for rank in range(self.size):
            failed = any(reply[0] != "ok" for reply in replies)
            replies.append(self.receive(rank, min(timeout, 20.0) if failed else timeout))  # the others may wait for it
        errors = {rank: reply[1] for rank, reply in enumerate(replies) if reply[0] != "ok"}
        if errors:
            raise RankError(errors)
        return [value for _, value in replies]

    def kill(self, rank: int) -> None:
        self.processes[rank].kill()
        self.processes[rank].wait(10)

    def close(self) -> None:
        for connection in self.connections:
            connection.close()
        deadline = time.monotonic() + 20
        for process in self.processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def start_hccl() -> None:
    import torch
    import torch.distributed as dist

    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,npu:hccl")


def _serve(connection: Connection) -> None:
    import torch_npu  # noqa: F401  (works without autoload too)

    sys.path.insert(0, str(HERE))
    while True:
        try:
            module, name, args = connection.recv()
        except EOFError:
            break
        try:
            function = importlib.import_module(module)
            for part in name.split("."):
                function = getattr(function, part)
            connection.send(("ok", function(*args)))
        except BaseException:
            connection.send(("error", traceback.format_exc()))
    try:
        import torch.distributed as dist

        if dist.is_initialized():
            dist.destroy_process_group()
    finally:
        sys.stdout.flush()


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
