"""`python -m torch_npu.migrate`: what every option and every default becomes, which options must be there, and the exit codes."""

import runpy
import sys
from pathlib import Path

import pytest

from torch_npu.migrate import __main__ as program, convert, ms_fmk_transplt, profiling
from torch_npu.migrate.analysis import project
from torch_npu.migrate.options import Options
from torch_npu.migrate.project import Refusal

IN, OUT = ["-i", "in"], ["-o", "out"]
CONVERT = {"source": Path("in"), "output": Path("out"), "options": Options(), "force": False}
ANALYSE = {"source": Path("in"), "output": None, "json": None, "fail_on": "unsupported", "third_party": False, "force": False}
PROFILE = {"script": "s.py", "arguments": [], "device": "cpu", "json": None, "fail_on": "unsupported"}
GIVEN = [
    (["convert", *IN, *OUT], CONVERT),
    (["convert", "--input", "in", "--output", "out", "--force"], {**CONVERT, "force": True}),
    (["convert", *IN, *OUT, "-s"], {**CONVERT, "options": Options(specify_device=True)}),
    (["convert", *IN, *OUT, "--specify-device", "--modelarts", "--version", "2.1.0"], {**CONVERT, "options": Options(specify_device=True)}),
    (["convert", *IN, *OUT, "-m", "-v", "2.1.0"], CONVERT),
    (["convert", *IN, *OUT, "distributed", "-m", "a.py"], {**CONVERT, "options": Options(distributed=True, main_file="a.py")}),
    (["convert", *IN, *OUT, "distributed", "--main", "a.py", "-t", "net"],
     {**CONVERT, "options": Options(distributed=True, main_file="a.py", target_model="net")}),
    (["convert", *IN, *OUT, "distributed", "--main", "a.py", "--target_model", "net"],
     {**CONVERT, "options": Options(distributed=True, main_file="a.py", target_model="net")}),
    (["analyse", *IN], ANALYSE),
    (["analyze", "--input", "in", *OUT], {**ANALYSE, "output": Path("out")}),
    (["analyse", *IN, "--json", "-", "--third-party"], {**ANALYSE, "json": Path("-"), "third_party": True}),
    (["analyse", *IN, "--force", "--fail-on", "fallback", "--output", "out"],
     {**ANALYSE, "force": True, "fail_on": "fallback", "output": Path("out")}),
    (["analyse", *IN, "--fail-on", "never"], {**ANALYSE, "fail_on": "never"}),
    (["profile", "s.py"], PROFILE),
    (["profile", "--device", "npu", "--json", "j", "--fail-on", "never", "s.py", "--json", "x", "-i"],
     {**PROFILE, "device": "npu", "json": Path("j"), "fail_on": "never", "arguments": ["--json", "x", "-i"]}),
    (["profile", "--device", "cpu", "--fail-on", "fallback", "s.py"], {**PROFILE, "fail_on": "fallback"}),
]
WRONG = [[], ["convert"], ["convert", *IN], ["convert", *OUT], ["convert", *IN, *OUT, "distributed"], ["analyse"], ["profile"], ["nothing"],
         ["analyse", *IN, "--fail-on", "always"], ["profile", "--device", "cuda", "s.py"], ["profile", "--fail-on", "x", "s.py"]]


@pytest.fixture
def given(monkeypatch):
    """What the command's function was called with, by the names that it has there; the function's answer is 7."""
    found = {}

    def replacement(*names):
        def call(*values):
            assert len(names) <= len(values)
            found.update(zip(names, values))
            return 7

        return call

    monkeypatch.setattr(convert, "run", replacement("source", "output", "options", "force"))
    monkeypatch.setattr(project, "run", replacement("source", "output", "json", "fail_on", "third_party", "force"))
    monkeypatch.setattr(profiling, "run_script", replacement("script", "arguments", "device", "json", "fail_on"))
    return found


@pytest.mark.parametrize("command, expected", GIVEN, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_what_the_options_become(given, command, expected):
    assert program.main(command) == 7
    assert given == expected
    if command[0] == "convert":  # the name that users of the toolkit know
        given.clear()
        assert ms_fmk_transplt.main(command[1:]) == 7 and given == expected


@pytest.mark.parametrize("command", WRONG, ids=" ".join)
def test_wrong_usage_is_exit_code_2(given, command, capsys):
    with pytest.raises(SystemExit) as raised:
        program.main(command)
    assert raised.value.code == 2 and given == {} and "usage: python -m torch_npu.migrate" in capsys.readouterr().err


@pytest.mark.parametrize("error, text", [(Refusal("it cannot be done"), "error: it cannot be done\n"),
                                         (FileNotFoundError(2, "No such file", "a.py"), "error: a.py: No such file\n"),
                                         (OSError(28, "No space left"), "error: : No space left\n")], ids=str)
def test_what_is_impossible_is_one_sentence_and_exit_code_1(monkeypatch, capsys, error, text):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(project, "run", fail)
    assert program.main(["analyse", *IN]) == 1
    assert capsys.readouterr().err == text


def test_the_table_is_printed(capsys):
    assert program.main(["table"]) == 0
    assert capsys.readouterr().out == program_table()


def program_table():
    from torch_npu.migrate.cuda_names import markdown_table

    return markdown_table()


@pytest.mark.parametrize("answer, replaces", [("y", True), (" YES ", True), ("n", False), ("", False)])
def test_a_person_is_asked_and_nobody_else(monkeypatch, answer, replaces):
    asked = []
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or answer)
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    assert program.confirm(Path("out")) is replaces and asked == ["out exists already. Replace it? [y/N] "]
    monkeypatch.setattr("sys.stdin", type("Pipe", (), {"isatty": lambda self: False})())
    assert program.confirm(Path("out")) is False and len(asked) == 1


@pytest.mark.filterwarnings("ignore:.*found in sys.modules.*:RuntimeWarning")
@pytest.mark.parametrize("name, command", [("torch_npu.migrate", ["convert"]), ("torch_npu.migrate.ms_fmk_transplt", [])])
def test_a_program_ends_with_the_code_of_its_command(monkeypatch, given, name, command):
    monkeypatch.setattr(sys, "argv", [name, *command, *IN, *OUT, "--force"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(name, run_name="__main__")
    assert ended.value.code == 7 and given == {**CONVERT, "force": True}
