"""docs/ci.md: its recipes are what the services take, and they and its tables name what exists. ci/sweep.sh alone runs them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from softnpu import cli, pytest_plugin
from softnpu.settings import SETTINGS

sys.path.insert(0, str(Path(__file__).parent))
import ci_page  # noqa: E402

SCRIPTS = [script for recipe in ci_page.recipes() for script in recipe.scripts] + ["\n".join(ci_page.guide())]


@pytest.fixture
def plugin_options():
    parser = pytest.Parser(_ispytest=True)
    pytest_plugin.pytest_addoption(parser)
    return {name for option in parser.getgroup("npu").options for name in option.names()}


def test_shell_lines_are_a_shells():
    assert len(SCRIPTS) >= 6
    for script in SCRIPTS:
        assert subprocess.run(["bash", "-n", "-c", script]).returncode == 0, script


def test_commands_of_softnpu_are_understood():
    """Each `softnpu ...` line, by the command's own parser."""
    found = [line for script in SCRIPTS for line in script.splitlines() if line.startswith("softnpu ")]
    assert len(found) >= 6
    for line in found:
        before, command = cli._split(line.split()[1:])
        assert cli._parser().parse_args(before).command == before[0]
        assert bool(command) == (before[0] == "run"), line


def test_options_of_the_plugin_exist_and_all_are_on_the_page(plugin_options):
    text = ci_page.PAGE.read_text()
    assert set(re.findall(r"--(?:npu|softnpu)-[a-z-]+", text)) == plugin_options


def test_settings_are_all_on_the_page():
    text = " ".join(ci_page.PAGE.read_text().split())
    (listed,) = re.findall(r"The keywords are (.*?)\.", text)
    assert re.findall(r"`(\w+)`", listed) == list(SETTINGS)


def test_recipes_run_what_the_page_shows():
    files = ci_page.files()
    assert set(files) == {"tests/test_linear.py", "train.py"}
    for recipe in ci_page.recipes():
        text = "\n".join(recipe.scripts)
        assert "pytest" in text and "torchrun --nproc_per_node 2 train.py" in text and set(recipe.variables) == {"WHEELS"}
        assert all(line in text for line in ci_page.guide()[1:2]) and "torch-npu==2.13.0" in text


def test_the_version_is_this_ones(root):
    cmake = (root / "CMakeLists.txt").read_text()
    release = re.search(r"project\(torch_npu VERSION (\S+)", cmake)[1]
    for page in (ci_page.PAGE, root / "softnpu/python/README.md"):
        text = page.read_text()
        assert set(re.findall(r"(?:torch-npu|torch)==([\d.]+)", text)) == {release}
        assert set(re.findall(r"softnpu(?:==|-)(\d[\d.]*\+\w+)", text)) == {f"{release}+oss"}
