"""tools/check_layers.py: passes on this checkout, and names each kind of violation."""

import shutil
import subprocess
import sys

import pytest


@pytest.fixture
def check(root, tmp_path):
    """Runs the checker on a tree that holds one file."""
    (tmp_path / "tools").mkdir()
    shutil.copy(root / "tools/check_layers.py", tmp_path / "tools")
    for folder in ("abi", "csrc/acl", "csrc/runtime", "csrc/ops", "csrc/python", "softnpu/runtime", "softnpu/kernels/engine"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / f"{folder.split('/')[-1]}_thing.h").write_text("#pragma once\n")

    def run(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        return subprocess.run([sys.executable, tmp_path / "tools/check_layers.py"], capture_output=True, text=True)

    return run


def test_this_checkout_respects_the_table(root):
    result = subprocess.run([sys.executable, root / "tools/check_layers.py"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("path, text", [
    ("csrc/ops/add.cpp", '#include "runtime/runtime_thing.h"\n#include "abi_thing.h"\n#include <ATen/ATen.h>\n'),
    ("csrc/python/module.cpp", '#include <Python.h>\n#include "ops/ops_thing.h"\n'),
    ("softnpu/kernels/engine/add.cpp", '#include <ATen/ATen.h>\n#include "runtime/runtime_thing.h"\n'),
    ("csrc/acl/config.cpp", 'auto x = std::getenv("X");\n'),
    ("csrc/runtime/a.cpp", "// a comment may say getenv(X) and .cpu()\n"),
])
def test_what_is_allowed(check, path, text):
    result = check(path, text)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("path, text, complaint", [
    ("csrc/acl/a.cpp", '#include "runtime/runtime_thing.h"\n', "csrc/acl must not include csrc/runtime"),
    ("csrc/runtime/a.cpp", '#include "../ops/ops_thing.h"\n', "csrc/runtime must not include csrc/ops"),
    ("csrc/ops/a.cpp", '#include "../../softnpu/runtime/runtime_thing.h"\n', "must not include softnpu/runtime"),
    ("softnpu/runtime/a.cpp", "#include <c10/util/Exception.h>\n", "only csrc and softnpu/kernels may include torch"),
    ("csrc/ops/a.cpp", "#include <torch/extension.h>\n", "only csrc/python may include Python"),
    ("csrc/runtime/a.cpp", "#include <torch/csrc/Device.h>\n", "only csrc/python may include Python"),
    ("csrc/runtime/a.cpp", 'auto x = getenv("X");\n', "an environment read belongs in"),
    ("csrc/ops/a.cpp", "auto y = x.cpu();\n", "CPU tensor work belongs in"),
    ("csrc/runtime/a.cpp", "auto h = dlopen(name, 1);\n", "a dlopen belongs in"),
    ("csrc/helpers/a.cpp", "\n", "folder csrc/helpers is not in the table"),
])
def test_what_is_not(check, path, text, complaint):
    result = check(path, text)
    assert result.returncode == 1
    assert complaint in result.stdout
