"""msprof-analyze: advisor, compare and cluster read profiles of torch_npu.profiler, as text and as databases, and find the launches."""

import csv
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path

import torch

import torch_npu  # noqa: F401
from torch_npu import profiler

TOOL = [sys.executable, "-c", "from msprof_analyze.cli.entrance import msprof_analyze_cli as main; main()"]


def record(folder: Path, form: str) -> Path:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)).npu()
    config = profiler._ExperimentalConfig(profiler_level=profiler.ProfilerLevel.Level1, export_type=form)
    with profiler.profile(schedule=profiler.schedule(wait=0, warmup=1, active=2, repeat=1), record_shapes=True, profile_memory=True,
                          with_stack=True, on_trace_ready=profiler.tensorboard_trace_handler(str(folder)),
                          experimental_config=config) as profile:
        for _ in range(3):
            model(torch.randn(8, 64).npu()).sum().backward()
            profile.step()
    info = profile.folder / "profiler_info.json"
    info.rename(info.with_name("profiler_info_0.json"))  # cluster wants ranks
    return profile.folder


def run(folder: Path, *arguments: str) -> str:
    process = subprocess.run([*TOOL, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    told = process.stdout + process.stderr
    assert process.returncode == 0 and "Traceback" not in told, told
    return told


def sheets(file: Path) -> str:
    """All texts of a workbook."""
    with zipfile.ZipFile(file) as book:
        return "".join(book.read(name).decode() for name in book.namelist() if name.endswith(".xml"))


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    for form in ("text", "db"):
        profile = record(folder / form, form)
        run(folder, "advisor", "all", "-d", str(profile), "-o", str(folder / form / "advice"))
        assert list((folder / form / "advice").glob("*.html")), "advisor wrote no page"
        run(folder, "compare", "-d", str(profile), "-bp", str(profile), "-o", str(folder / form / "comparison"))
        (book,) = (folder / form / "comparison").glob("*.xlsx")
        assert "aten::addmm" in sheets(book) and "aclnnAddmm" in sheets(book), "compare does not know the launches"
    run(folder, "cluster", "-d", str(folder / "text"), "-m", "all", "-o", str(folder / "cluster"))
    (steps,) = (folder / "cluster").rglob("cluster_step_trace_time.csv")
    with steps.open() as file:
        assert [row["Step"] for row in csv.DictReader(file)] == ["1", "2"]
    run(folder, "cluster", "-d", str(folder / "db"), "-m", "compute_op_sum", "-o", str(folder / "sums"))
    assert list((folder / "sums").rglob("cluster_analysis.db")), "cluster wrote no database"
print(f"ok: msprof-analyze {version('msprof-analyze')}: advisor, compare and cluster read profiles as text and as databases")
