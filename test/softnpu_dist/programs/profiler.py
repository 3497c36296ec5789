"""Both profilers: torch.profiler has the device's kernels, torch_npu.profiler writes its folder."""

import json
import tempfile
from collections import Counter
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

import torch_npu

x = torch.randn(64, 64).npu()
(x @ x).relu().sum().item()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as record:
    for _ in range(3):
        (x @ x).relu().sum()
    torch.npu.synchronize()
with tempfile.TemporaryDirectory() as folder:
    record.export_chrome_trace(f"{folder}/trace.json")
    events = json.loads(Path(folder, "trace.json").read_text())["traceEvents"]
kernels = Counter(event["name"] for event in events if event.get("cat") == "kernel")
assert kernels["aclnnMatmul"] == kernels["aclnnRelu"] == 3, kernels

with tempfile.TemporaryDirectory() as folder:
    with torch_npu.profiler.profile(on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(folder)):
        (x @ x).relu().sum().item()
    (output,) = Path(folder).glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT")
    files = sorted(file.name for file in output.iterdir())
    assert "aten::matmul" in (output / "trace_view.json").read_text()
print(f"torch.profiler: {dict(kernels)}; torch_npu.profiler: {' '.join(files)}")
