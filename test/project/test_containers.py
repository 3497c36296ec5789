"""ci/docker: the recipes of the build images fit requirements.txt, preflight.py and each other. docker itself is not needed."""

import re
import shlex
import subprocess

import pytest

FOLDERS = {"X86": "x86_64", "ARM": "aarch64"}


@pytest.fixture(params=FOLDERS)
def recipe(request, root):
    return (root / "ci/docker" / request.param / "Dockerfile").read_text(), FOLDERS[request.param]


def instructions(text):
    """The recipe's instructions as (word, rest), continued lines joined."""
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def test_base_image_is_of_the_processor(recipe):
    text, processor = recipe
    assert instructions(text)[0] == ("FROM", f"quay.io/pypa/manylinux_2_28_{processor}")


def test_commands_are_bash(recipe):
    for word, command in instructions(recipe[0]):
        if word == "RUN":
            assert subprocess.run(["bash", "-n", "-c", command], capture_output=True).returncode == 0


def test_a_failing_install_fails_the_image(recipe, tmp_path):
    """The commands run with a python3.11 that fails in turn at each of its calls."""
    command = next(rest for word, rest in instructions(recipe[0]) if word == "RUN")
    log = tmp_path / "log"
    for failing in (1, 2, 3):
        log.write_text("")
        stub = tmp_path / "python3.11"
        stub.write_text(f'#!/bin/sh\necho call >> {log}\n[ "$(wc -l < {log})" -ne {failing} ]\n')
        stub.chmod(0o755)
        result = subprocess.run(["sh", "-c", command], env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONS": "3.11"})
        assert (result.returncode != 0) == (failing < 3)


def test_everything_of_requirements_is_installed(recipe, root):
    command = next(rest for word, rest in instructions(recipe[0]) if word == "RUN")
    needed = {line for line in (root / "requirements.txt").read_text().splitlines() if line and not line.startswith("#")}
    assert needed <= {word.rstrip(";") for word in shlex.split(command)}


def test_the_checkout_is_mounted_where_the_image_works(recipe, root):
    text, _ = recipe
    assert ("WORKDIR", "/home/pytorch") in instructions(text)
    assert ":/home/pytorch manylinux-builder:v1 bash" in (root / "docs/build.md").read_text()
    assert not [word for word, _ in instructions(text) if word in ("COPY", "ADD", "VOLUME")]


def test_both_recipes_are_the_same_but_for_the_processor(root):
    texts = {re.sub("x86_64|aarch64", "", (root / "ci/docker" / folder / "Dockerfile").read_text()) for folder in FOLDERS}
    assert len(texts) == 1
