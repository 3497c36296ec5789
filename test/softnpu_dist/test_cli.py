"""softnpu run, env, info: what they give a program, and what they answer to mistakes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from softnpu import place

PRINT = "import os, sys; print(*(os.environ.get(name) for name in sys.argv[1:]), sep='\\n')"


def printed(softnpu, *names, settings=(), **environment):
    done = softnpu("run", *settings, "--", sys.executable, "-c", PRINT, *names, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_client_finds_the_libraries_by_name(softnpu):
    """As the dynamic linker does it: by LD_LIBRARY_PATH, without a path."""
    code = ("import ctypes; acl, *_ = map(ctypes.CDLL, ('libascendcl.so', 'libhccl.so', 'libacl_op_compiler.so')); "
            "n = ctypes.c_uint32(); assert acl.aclInit(None) == 0 and acl.aclrtGetDeviceCount(ctypes.byref(n)) == 0; print(n.value)")
    done = softnpu("run", "--cards", 3, "--", sys.executable, "-c", code)
    assert done.stdout == "3\n", done.stderr


def test_settings_reach_the_program(softnpu):
    settings = ("--cards", 2, "--memory", "1G", "--soc", "Ascend910B3", "--strict", "calls", "--hostile", 7, "--asynchronous",
                "--threads", 1)
    names = ("SOFTNPU_DEVICES", "SOFTNPU_MEMORY", "SOFTNPU_SOC", "SOFTNPU_STRICT", "SOFTNPU_HOSTILE", "SOFTNPU_ASYNC", "SOFTNPU_THREADS")
    assert printed(softnpu, *names, settings=settings) == ["2", "1G", "Ascend910B3", "calls", "7", "1", "1"]
    assert printed(softnpu, "SOFTNPU_DEVICES", "SOFTNPU_STRICT", SOFTNPU_DEVICES="5", SOFTNPU_STRICT=None) == ["5", "None"]
    assert printed(softnpu, "SOFTNPU_STRICT", settings=["--strict"]) == ["1"]


def test_an_installed_cann_is_not_used(softnpu, tmp_path):
    (tmp_path / "cann/lib64").mkdir(parents=True)
    (tmp_path / "cann/lib64/libascendcl.so").touch()
    (tmp_path / "other").mkdir()
    path = f"{tmp_path}/cann/lib64:{tmp_path}/other"
    home, libraries, runtime = printed(softnpu, "ASCEND_HOME_PATH", "LD_LIBRARY_PATH", "TORCH_NPU_RUNTIME",
                                       ASCEND_HOME_PATH=f"{tmp_path}/cann", LD_LIBRARY_PATH=path, TORCH_NPU_RUNTIME="cann")
    assert home == str(place.toolkit()) and runtime == "soft"
    assert libraries == f"{place.library_folder()}:{tmp_path}/other"


def test_the_exit_status_is_the_programs(softnpu):
    for settings in ((), ("--private",)):
        assert softnpu("run", *settings, "--", "sh", "-c", "exit 7").returncode == 7
    assert softnpu("run", "--private", "--", "sh", "-c", "kill -9 $$").returncode == 137
    assert softnpu("run", "--", "no_such_program").returncode == 127


def test_private_cards_leave_nothing(softnpu, tmp_path):
    (folder,) = printed(softnpu, "XDG_RUNTIME_DIR", settings=["--private"])
    assert folder.startswith(str(tmp_path)) and not Path(folder).exists()


@pytest.mark.parametrize("arguments, sentence", [
    (("run", "--cards", 99, "--", "true"), "SOFTNPU_DEVICES='99' makes no sense; expected a number from 0 to 64"),
    (("run", "--soc", "Ascend1", "--", "true"), "SOFTNPU_SOC='Ascend1' makes no sense; expected one of Ascend910A"),
    (("env", "--memory", "much"), "SOFTNPU_MEMORY='much' makes no sense"),
    (("info", "--memory", "much"), "SOFTNPU_MEMORY='much' makes no sense"),
    (("run", "--cards", 2), "softnpu run needs a command behind --"),
    (("info", "--", "true"), "softnpu info takes no command behind --"),
    (("run", "--strict", "types", "--", "true"), "--strict"),
    (("env", "--path", "--cards", 2), "env --path names a file and takes no settings"),
    (("conformance", "--library", "/nowhere/libascendcl.so"), "--library /nowhere/libascendcl.so is no file"),
])
def test_mistakes_are_told_in_a_sentence(softnpu, arguments, sentence):
    done = softnpu(*arguments)
    assert done.returncode == 2 and sentence in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_setting_that_nothing_reads_is_told(softnpu):
    done = softnpu("run", "--", "true", SOFTNPU_DEVICE="2")
    assert done.returncode == 0 and done.stderr == "softnpu: nothing reads SOFTNPU_DEVICE; SOFTNPU_DEVICES is meant?\n"


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize("by", ["path", "exports"])
def test_a_shell_takes_it(softnpu, shell, by, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    if by == "path":
        file = Path(softnpu("env", "--path").stdout.strip())
        if file.name != "use_softnpu.sh":
            pytest.skip("the libraries are those of a torch_npu wheel, which has no use_softnpu.sh")
        line = f'source "{file}" >/dev/null'
    else:
        (tmp_path / "exports.sh").write_text(softnpu("env", "--cards", 2).stdout)
        line = f'source "{tmp_path}/exports.sh"'
    (tmp_path / "cann/lib64").mkdir(parents=True)
    (tmp_path / "cann/lib64/libascendcl.so").touch()
    done = subprocess.run([shell, "-euc", f'{line}; {line}; echo "$ASCEND_HOME_PATH $TORCH_NPU_RUNTIME ${{LD_LIBRARY_PATH%%:*}}"'],
                          env={**os.environ, "ASCEND_HOME_PATH": f"{tmp_path}/cann"}, capture_output=True, text=True)
    assert done.stdout.split() == [str(place.toolkit()), "soft", str(place.library_folder())], done.stderr


def test_info_is_what_a_program_gets(softnpu):
    found = json.loads(softnpu("info", "--json", "--cards", 2, "--memory", "512M", "--soc", "Ascend910A", "--strict",
                               XDG_RUNTIME_DIR=None).stdout)
    assert [card["total_bytes"] for card in found["cards"]] == [512 << 20] * 2
    assert (found["soc"], found["strict"]) == ("Ascend910A", "calls and data types")
    assert found["settings"]["SOFTNPU_MEMORY"] == {"value": "512M", "default": "the chip's"}
    text = softnpu("info", "--cards", 2, "--memory", "512M", "--soc", "Ascend910A", SOFTNPU_CARDS="2").stdout
    assert "cards: 2 Ascend910A of 0.5 GiB" in text and "SOFTNPU_DEVICES=2 (default 8)" in text
    assert "nothing reads SOFTNPU_CARDS" in text
    assert "cards: none" in softnpu("info", "--cards", 0).stdout
