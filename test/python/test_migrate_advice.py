"""Every name that `migrate` and transfer_to_npu recommend exists, and what they say of hardware is what softnpu/soc_limits.yaml says."""

import re
from functools import reduce
from pathlib import Path

import pytest
import torch
import yaml

import torch_npu
from torch_npu.contrib._transfer import table
from torch_npu.migrate import cuda_names
from torch_npu.migrate.analysis import advice

TEXTS = [
    *advice.PRECISION.values(), *advice.PERFORMANCE.values(), *advice.CUDA_PACKAGES.values(), *advice.CUDA_APIS.values(),
    *table.REFUSED.values(), *(f"torch_npu.{name}" for name in advice._AFFINITY.values()),
    *(name for name, _ in cuda_names.CALLS.values()), *(npu for _, npu, _ in cuda_names.OTHER_ROWS),
    *(text for _, _, text in cuda_names.OTHER_ROWS), *cuda_names.DIFFERENCES.values(), cuda_names.why_not("torch.cuda.nothing"),
]  # fmt: skip
NAMES = sorted({name for text in TEXTS for name in re.findall(r"\btorch(?:_npu)?(?:\.\w+)+", text)})


@pytest.mark.parametrize("name", NAMES)
def test_recommended_names_exist(name):
    reduce(getattr, name.split(".")[1:], torch_npu if name.startswith("torch_npu") else torch)


def test_tables_hold_names_at_all():
    assert len(NAMES) > 15 and "torch.npu.mem_get_info" in NAMES and "torch_npu.optim.NpuFusedAdam" in NAMES


def test_hardware_limits_are_those_of_the_table():
    root = Path(__file__).resolve().parents[2]
    rows = yaml.safe_load((root / "softnpu/soc_limits.yaml").read_text())["types"]
    expected = {dtype: ", ".join(row.get("socs", ["every Ascend chip"])) for row in rows for dtype in row["dtypes"]}
    assert expected == advice.HARDWARE
    page = (root / "docs/operators.md").read_text()
    for row in rows:
        assert f"| {', '.join(row['dtypes'])} in any operator | {', '.join(row.get('socs', ['every']))} |" in page


def test_analysis_says_what_hardware_refuses(tmp_path, capsys):
    import json

    from torch_npu.migrate.__main__ import main

    (tmp_path / "a.py").write_text("import torch\ny = torch.relu(torch.ones(2))\n")
    assert main(["analyse", "-i", str(tmp_path / "a.py"), "--json", str(tmp_path / "a.json")]) == 0
    rows = {row["api"]: row for row in json.loads((tmp_path / "a.json").read_text())["apis"]}
    assert rows["torch.relu"]["refused_by_hardware"] == {"bfloat16": "Ascend910A, Ascend910ProB", "float64": "every Ascend chip"}
    assert "all Ascend chips refuse float64" in capsys.readouterr().out


def test_differences_are_attributes_of_classes_and_parameters_of_functions(monkeypatch):
    class Theirs:
        shared, theirs, _private = 1, 2, 3

    class Ours:
        shared = 1

    monkeypatch.setattr(torch.cuda, "Stream", Theirs)
    monkeypatch.setattr(torch.npu, "Stream", Ours)
    assert cuda_names._difference("Stream") == "no attribute `theirs`"
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None, wait=True, *args, **kwargs: None)
    monkeypatch.setattr(torch.npu, "synchronize", lambda device=None: None)
    assert cuda_names._difference("synchronize") == "no parameter `wait`"
    monkeypatch.setattr(torch.npu, "device_count", torch.cuda.device_count)
    assert cuda_names._difference("device_count") == cuda_names.DIFFERENCES["device_count"]
