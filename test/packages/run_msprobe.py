"""mindstudio-probe (msprobe): PrecisionDebugger dumps statistics of a network's forward and backward passes on the npu."""

import json
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch
from msprobe.pytorch import PrecisionDebugger, seed_all

import torch_npu

seed_all(seed=7)
network = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3)).npu()
x, y = torch.randn(4, 1, 8, 8).npu(), torch.randint(3, (4,)).npu()
weight = torch.ones(3, device="npu")
with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    config = {
        "task": "statistics", "dump_path": str(folder / "dump"), "rank": [], "step": [], "level": "mix", "async_dump": False,
        "statistics": {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    debugger = PrecisionDebugger(config_path=str(folder / "config.json"))
    for _ in range(2):
        debugger.start(model=network)
        torch.nn.functional.cross_entropy(torch_npu.npu_rms_norm(network(x), weight)[0], y).backward()
        debugger.stop()
        debugger.step()
    dumps = sorted((folder / "dump").rglob("dump.json"))
    assert len(dumps) == 2, dumps
    data = json.loads(dumps[0].read_text())["data"]
for wanted in ("Functional.conv2d.0.forward", "Functional.conv2d.0.backward", "Module.0.Conv2d.forward.0", "NPU.npu_rms_norm.0.forward"):
    assert wanted in data, sorted(data)
output = data["Functional.conv2d.0.forward"]["output"][0]
expected = network[0](x)
assert abs(output["Max"] - expected.max().item()) < 1e-5 and output["shape"] == list(expected.shape), output
text = f"PrecisionDebugger dumps {len(data)} calls of a step: torch, module and npu_ operators"
print(f"ok: mindstudio-probe {version('mindstudio-probe')}: {text}")
