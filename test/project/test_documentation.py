"""docs/: every environment variable that the code reads is on docs/environment.md, links lead
somewhere, and the Python on the pages runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

NAME = re.compile(r'"((?:TORCH_NPU|TORCH|SOFTNPU|PYTORCH|ASCEND|ACL|TASK|HCCL|COMBINED|OMP|NPU|RANK)[A-Z0-9_]*)"')


@pytest.mark.parametrize("config", ["csrc/acl/config.cpp", "softnpu/runtime/config.cpp"])
def test_variables_are_listed(root, config):
    page = (root / "docs/environment.md").read_text()
    missing = [name for name in NAME.findall((root / config).read_text()) if f"`{name}`" not in page]
    assert missing == []


def test_links_lead_to_files(root):
    broken = []
    for page in [*root.glob("*.md"), *root.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            if not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert broken == []


def test_quick_start_names_the_packages_that_the_examples_import(root):
    files = list((root / "examples").glob("*.py"))
    known = {*sys.stdlib_module_names, *(file.stem for file in files), "torch", "torch_npu"}
    lines = re.findall(r"`pip install ([^`]+)`", (root / "docs/quick_start.md").read_text())
    named = {"sklearn" if package == "scikit-learn" else package for line in lines for package in line.split()}
    imports = {name for file in files for name in re.findall(r"^ *(?:from|import) (\w+)", file.read_text(), re.MULTILINE)} - known
    assert "sklearn" in imports and imports <= named, imports - named


PAGES = [page for page in sorted((Path(__file__).resolve().parents[2] / "docs").rglob("*.md"))
         if "```python\n" in page.read_text()]


# Each script in a process of its own, forked from one that has imported everything and used no card.
FORK = """
import os, sys, torch, torch_npu
failed = []
for script in sys.argv[1:]:
    if os.fork() == 0:
        folder = script + ".folder"
        os.mkdir(folder)
        os.chdir(folder)
        exec(compile(open(script).read(), script, "exec"), {"__name__": "__main__"})
        sys.exit()
    if os.wait()[1]:
        failed.append(script)
sys.exit(" ".join(failed) or 0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted({page.parent for page in PAGES}), ids=lambda folder: folder.name)
def test_python_on_the_pages_runs(folder, tmp_path):
    scripts: list[Path] = []
    (tmp_path / "pages").mkdir()  # not where modules are looked for: some are called torch_npu
    for page in PAGES:
        if page.parent == folder:
            scripts.append(tmp_path / "pages" / f"{page.stem}.py")
            scripts[-1].write_text("\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)))
    result = subprocess.run([sys.executable, "-c", FORK, *map(str, scripts)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_every_public_name_is_documented(root, tmp_path):
    command = [sys.executable, root / "tools/make_api_docs.py", "--check"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    pages = [page for page in (root / "docs/api").glob("*.md") if page.stem != "torch_npu.operators"]  # those have schemas
    assert [line for page in pages for line in page.read_text().splitlines() if line.endswith("` |  |")] == []
