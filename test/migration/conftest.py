"""Running training scripts written for CUDA: unmodified with cuda redirected, converted, and on the CPU."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_npu

INSTALLED = os.path.dirname(torch_npu.__path__[0])
LOSS = re.compile(r"(?:loss\w*|err[DG])\b[\s:=]*([0-9]+\.[0-9]+)", re.IGNORECASE)
RUNNER = """
import os, runpy, sys
import torch
torch.manual_seed(0)  # for scripts that set no seed
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if not torch.npu.is_available():
                item.add_marker(pytest.mark.skip(reason="no npu is available"))


@pytest.fixture(scope="session")
def entry_point(tmp_path_factory):
    """A folder for PYTHONPATH that declares the entry point, as the installed wheel does."""
    info = tmp_path_factory.mktemp("site") / "torch_npu-2.13.0+oss.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.13.0+oss\n")
    (info / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    return str(info.parent)


@pytest.fixture
def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


@pytest.fixture
def train(tmp_path_factory, entry_point):
    """train(script, *arguments, transfer=..., path=..., folder=..., package=...) -> the losses that the script prints."""

    def run(script, *arguments, transfer=False, path=(), folder=None, package=False, **environment):
        folder = folder or tmp_path_factory.mktemp("run")
        variables = {**os.environ, "TORCH_TRANSFER_TO_NPU": str(int(transfer)), **environment}
        variables["PYTHONPATH"] = os.pathsep.join([INSTALLED, entry_point, *map(str, path)])
        variables.pop("TORCH_NPU_FALLBACK_CPU_DISABLE", None)  # a user's script may fall back; operators have their own tests
        start = ["-c", RUNNER, str(script)] if package else [str(script)]
        process = subprocess.run([sys.executable, *start, *map(str, arguments)], cwd=folder, env=variables,
                                 capture_output=True, text=True, timeout=500)  # fmt: skip
        assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-4000:]
        losses = list(dict.fromkeys(float(text) for text in LOSS.findall(process.stdout + process.stderr)))  # bars repeat themselves
        assert losses, process.stdout[-2000:] + process.stderr[-2000:]
        return losses

    return run


@pytest.fixture
def convert(tmp_path_factory):
    """convert(script) -> the converted script, made by the command line tool."""
    pytest.importorskip("libcst", reason="conversion needs libcst")
    from torch_npu.migrate.__main__ import main

    def run(script):
        output = tmp_path_factory.mktemp("converted") / script.name
        assert main(["convert", "-i", str(script), "-o", str(output)]) == 0
        return output

    return run
