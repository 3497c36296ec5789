"""Code in processes that are forked from one which has imported torch_npu and used no card: the import costs more than most tests.

As a program this is that process: for each line of its input, JSON with code, environment, folder and files for what the code prints, it
forks, and answers with the child's number, then with its exit status. Only variables that nothing reads before a card is used may differ
from those of the tests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

READ_LATER = re.compile(r"SOFTNPU_\w+|TASK_QUEUE_ENABLE|XDG_RUNTIME_DIR|TORCH_NPU_RUNTIME|PYTORCH_NPU_ALLOC_CONF")


def changed(environment):
    """That of the tests, with changes; None takes a variable away."""
    path = os.pathsep.join(filter(None, [*environment.pop("PYTHONPATH", "").split(os.pathsep), _installed()]))
    env = {**os.environ, "PYTHONPATH": path, **environment}
    return {name: value for name, value in env.items() if value is not None}


def _installed() -> str:
    """Where the package under test lies; first on the path of child processes, so that they test the same one."""
    import torch_npu

    return os.path.dirname(torch_npu.__path__[0])


def can_run(flags: tuple, environment: dict) -> bool:
    return not flags and all(READ_LATER.fullmatch(name) for name in environment)


class Parent:
    """The process that forks; one for each process of the tests, started at its first use."""

    def __init__(self) -> None:
        self.process: subprocess.Popen | None = None

    def run(self, code: str, cwd: Path, env: dict[str, str], timeout: float) -> subprocess.CompletedProcess:
        if self.process is None:
            self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        assert self.process.stdin and self.process.stdout
        with tempfile.TemporaryDirectory() as folder:
            out, err = (Path(folder, name) for name in ("out", "err"))
            request = {"code": code, "cwd": str(cwd), "env": env, "out": str(out), "err": str(err), "seconds": timeout}
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            if not answer:
                raise RuntimeError("the process that forks has ended")
            if (status := json.loads(answer)) is None:
                raise subprocess.TimeoutExpired(code, timeout, out.read_text(), err.read_text())
            return subprocess.CompletedProcess(code, status, out.read_text(), err.read_text())

    def end(self) -> None:
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def wait(pid: int, seconds: float) -> int | None:
    """The exit status, negative for a signal as in subprocess; None for a child that had to be killed."""
    import select
    import signal

    descriptor = os.pidfd_open(pid)
    in_time = select.select([descriptor], [], [], seconds)[0]
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    os.close(descriptor)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if in_time else None


def serve() -> str:
    """Returns in a child, with the code that it is to run."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    import torch  # noqa: F401

    import torch_npu  # noqa: F401

    for line in iter(requests.readline, ""):
        request = json.loads(line)
        if (pid := os.fork()) == 0:
            requests.close()
            os.close(answers.fileno())
            for number, file in ((1, request["out"]), (2, request["err"])):
                os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), number)
            os.chdir(request["cwd"])
            os.environ.clear()
            os.environ.update(request["env"])
            sys.argv, sys.path[0] = ["-c"], ""
            return request["code"]
        answers.write(json.dumps(wait(pid, request["seconds"])) + "\n")
        answers.flush()
    sys.exit()


if __name__ == "__main__":
    _code = serve()
    _names = {"__name__": "__main__", "__builtins__": __builtins__}
    sys.modules["__main__"].__dict__.update(_names)
    exec(compile(_code, "<string>", "exec"), _names)
