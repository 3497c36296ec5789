"""docs/migration.md: its programs and commands run in order, in one folder, as a reader would; its table is the generated one.

```py blocks are files, named by their first line; ```bash blocks are commands. The ```python blocks are run by
test/build/test_documentation.py.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed

import torch_npu

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCKS = re.findall(r"```(py|bash)\n(.*?)```", (DOCS / "migration.md").read_text(), re.DOTALL)
INSTALLED = os.path.dirname(torch_npu.__path__[0])


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    """A folder with the files of the page, and the environment of somebody who has installed the wheel."""
    folder = tmp_path_factory.mktemp("guide")
    for kind, text in BLOCKS:
        if kind == "py":
            (folder / re.match(r"# (\S+)\n", text).group(1)).write_text(text)
    info = folder / "site" / "torch_npu-2.13.0+oss.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.13.0+oss\n")
    (info / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    programs = folder / "bin"
    programs.mkdir()
    (programs / "ms_fmk_transplt.py").write_text(
        f"#!{sys.executable}\nimport sys\nfrom torch_npu.migrate.ms_fmk_transplt import main\nsys.exit(main())\n"
    )
    (programs / "ms_fmk_transplt.py").chmod(0o755)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join([INSTALLED, str(info.parent)])}
    return folder, environment


COMMANDS = [line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_command(guide, command):
    if command.startswith("pip install"):
        pytest.importorskip("libcst", reason="what this line installs")
        return
    if "convert" in command or "transplt" in command or "train_npu.py" in command:
        pytest.importorskip("libcst", reason="conversion needs libcst")
    if command.startswith("torchrun") and "hccl" not in torch.distributed.Backend.backend_list:
        pytest.skip("the distributed backend hccl is not registered")
    folder, environment = guide
    process = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stdout + process.stderr
    if "train" in command and command.startswith(("TORCH_TRANSFER", "python train")):
        assert process.stdout.splitlines()[2].startswith("2 0.") and process.stdout.count(" npu") == 3
    if "VISIBLE" in command:
        assert process.stdout.strip() == "2"


def test_the_page_has_all_its_parts():
    assert {kind for kind, _ in BLOCKS} == {"py", "bash"} and len(COMMANDS) >= 8
    assert (DOCS / "migration_report.png").stat().st_size > 10_000


def test_table_of_names_is_the_generated_one():
    from torch_npu.migrate.cuda_names import markdown_table

    text = (DOCS / "cuda_to_npu.md").read_text()
    assert text.endswith(markdown_table()), "cure: python -m torch_npu.migrate table, and replace the table of docs/cuda_to_npu.md"


def test_a_function_without_a_signature_lacks_nothing():
    from torch_npu.migrate.cuda_names import _words

    assert _words(max) == []
    assert _words(lambda a, *args, b=1: None) == ["a", "b"]
