"""Tests of the Python package."""

import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import forked  # noqa: E402
import torch  # noqa: E402
from forked import changed  # noqa: E402

import torch_npu  # noqa: E402, F401  (where torch was imported without it, as by test/mutation, no file would run alone)


def pytest_collection_modifyitems(items):
    if not torch.npu.is_available():
        for item in items:
            item.add_marker(pytest.mark.skip(reason="no npu is available"))


@pytest.fixture
def run(tmp_path):
    """run(code, *flags, **environment) -> CompletedProcess of a fresh interpreter, in an empty folder."""

    def run_python(code, *flags, cwd=tmp_path, timeout=120, **environment):
        command = [sys.executable, *flags, "-c", code]
        return subprocess.run(command, cwd=cwd, env=changed(environment), capture_output=True, text=True, timeout=timeout)

    return run_python


@pytest.fixture(scope="session")
def parent():
    found = forked.Parent()
    yield found
    found.end()


@pytest.fixture
def check(run, parent, tmp_path):
    """Like run(), with torch_npu imported, but fails unless the process succeeds; returns what it printed."""

    def check_python(code, *flags, cwd=tmp_path, timeout=120, **environment):
        if forked.can_run(flags, environment):
            process = parent.run("import torch, torch_npu\n" + code, cwd, changed(environment), timeout)
        else:
            process = run("import torch, torch_npu\n" + code, *flags, cwd=cwd, timeout=timeout, **environment)
        assert process.returncode == 0, process.stderr
        return process.stdout.strip()

    return check_python


@pytest.fixture
def restore_device():
    """Ends the test with card 0 and its default stream current."""
    yield
    torch.npu.set_device(0)
    torch.npu.set_stream(torch.npu.default_stream(0))


@pytest.fixture
def counters():
    """counters("captures", ...) -> what the compiled graphs of this test have counted, which starts with nothing compiled."""
    import torch._dynamo.utils

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    return lambda *names: [torch._dynamo.utils.counters["npu"][name] for name in names]
