"""Checkpoints written here are read by the official plugin on softnpu, and the other way round; training goes on with the same losses.

Needs the virtual environment that ci/official.sh makes (OFFICIAL_VENV, or build/official of the checkout).
"""

import os
import subprocess
from pathlib import Path

import pytest
import torch

import torch_npu

VENV = Path(os.environ.get("OFFICIAL_VENV", Path(__file__).parents[2] / "build" / "official"))
SOFTNPU = Path(torch_npu.__path__[0]) / "softnpu"

# Both sides: three steps from a checkpoint or from the start, then a checkpoint of everything.
JOB = """
import sys, torch, torch_npu
source, target = sys.argv[1:]
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Flatten(), torch.nn.Linear(8, 3)).npu()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
extra = {"half": torch.arange(6.0).half().npu(), "view": torch.arange(6).npu()[2:4], "bool": torch.tensor([True, False]).npu(),
         "bfloat16": torch.ones(3, dtype=torch.bfloat16).npu(), "parameter": torch.nn.Parameter(torch.ones(2).npu())}
if source != "none":
    state = torch.load(source)
    assert state["model"]["0.weight"].device == torch.device("npu:0"), state["model"]["0.weight"].device
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    for name, value in extra.items():
        read = state["extra"][name]
        assert type(read) is type(value) and read.dtype == value.dtype and torch.equal(read.cpu(), value.cpu()), name
data = torch.Generator().manual_seed(1)
for _ in range(3):
    x, y = torch.randn(4, 1, 4, 4, generator=data).npu(), torch.randint(0, 3, (4,), generator=data).npu()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    print("loss", loss.item())
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "extra": extra}, target)
"""


@pytest.fixture
def official(tmp_path):
    if not (VENV / "bin" / "python").exists():
        pytest.skip("no official plugin: bash ci/official.sh makes its environment")

    def run(source, target):
        script = tmp_path / "job.py"
        script.write_text(JOB)
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "ASCEND_HOME_PATH")}
        command = f'. "{SOFTNPU}/set_env.sh" && exec "{VENV}/bin/python" "$@"'
        result = subprocess.run(["bash", "-c", command, "job", str(script), source, target], cwd=tmp_path, capture_output=True,
                                text=True, timeout=300, env={**environment, "TORCH_NPU_RUNTIME": "soft"})
        assert result.returncode == 0, result.stderr
        return losses(result.stdout)

    return run


@pytest.fixture
def here(run):
    def job(source, target):
        result = run(JOB.replace("source, target = sys.argv[1:]", f"source, target = {source!r}, {target!r}"), timeout=300)
        assert result.returncode == 0, result.stderr
        return losses(result.stdout)

    return job


def losses(text):
    return torch.tensor([float(line.split()[1]) for line in text.splitlines() if line.startswith("loss")])


def test_both_ways(official, here, tmp_path):
    a, b, c = (str(tmp_path / f"{name}.pt") for name in "abc")
    curves = [here("none", a), official("none", b)]
    torch.testing.assert_close(*curves, rtol=1e-4, atol=1e-5)
    from_ours = [here(a, c), official(a, c)]
    torch.testing.assert_close(*from_ours, rtol=1e-4, atol=1e-5)
    from_official = [official(b, c), here(b, c)]
    torch.testing.assert_close(*from_official, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(curves[0], from_ours[0])  # the checkpoint was taken up
    for path in (a, b):
        assert torch.load(path, map_location="cpu")["model"]["0.weight"].device.type == "cpu"
