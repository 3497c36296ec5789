"""The pytest plugin, by pytester."""

import json
import os
import sys
from pathlib import Path

import pytest

from softnpu import place, pytest_plugin

pytest_plugins = ["pytester"]
PACKAGE = str(Path(pytest_plugin.__file__).parents[1])

FOUR = """
import pytest
@pytest.mark.npu
def test_one(): pass
@pytest.mark.npu(count=2)
def test_two(): pass
@pytest.mark.softnpu_only
def test_soft(): pass
@pytest.mark.cann_only
def test_cann(): pass
def test_plain(): pass
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """run(*arguments, machine=None) -> the result of pytest with the plugin, in this process; `machine` takes the place of a real one."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # that of the tests, not of the plugin's

    def run_pytest(*arguments, machine=None):
        def asked():
            assert machine is not None, "nothing asks for a machine unless a test has a marker"
            return machine

        monkeypatch.setattr(pytest_plugin, "machine", asked)
        return pytester.runpytest_inprocess("--strict-markers", "-rs", *arguments, plugins=[pytest_plugin])

    return run_pytest


def machine(count, is_softnpu=True, reason=""):
    return pytest_plugin.Machine(count, is_softnpu, reason)


@pytest.mark.parametrize("found, passed, skipped", [((8, True), 4, 1), ((1, True), 3, 2), ((8, False), 4, 1), ((0, False), 1, 4)])
def test_markers(run, pytester, found, passed, skipped):
    pytester.makepyfile(FOUR)
    run(machine=machine(*found, "no driver")).assert_outcomes(passed=passed, skipped=skipped)


def test_reasons_are_told(run, pytester):
    pytester.makepyfile(FOUR)
    run(machine=machine(1)).stdout.fnmatch_lines(["*needs 2 NPUs: there are 1*", "*cann_only: this is softnpu*"], consecutive=False)
    nothing = run(machine=machine(0, reason="torch_npu finds none"))
    nothing.stdout.fnmatch_lines(["*needs 1 NPU: torch_npu finds none*"])


def test_a_run_that_requires_an_npu_fails_without(run, pytester):
    pytester.makepyfile(FOUR)
    result = run("--npu-require", machine=machine(0, reason="torch_npu finds none"))
    result.assert_outcomes(passed=1, errors=2, skipped=2)
    result.stdout.fnmatch_lines(["*needs 1 NPU: torch_npu finds none (--npu-require)"])


@pytest.mark.parametrize("mark", ["npu(2)", "npu(cards=2)", "npu(count=0)", "npu(count=True)"])
def test_a_marker_that_makes_no_sense_is_an_error(run, pytester, mark):
    pytester.makepyfile(f"import pytest\n@pytest.mark.{mark}\ndef test(): pass")
    result = run(machine=machine(8))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the marker is npu or npu(count=N) with N from 1*"])


def test_unused_it_changes_nothing(run, pytester):
    """No marker, no option: no module is imported, no variable set, no file made."""
    pytester.makepyfile("""
        import os, sys
        def test():
            assert 'torch' not in sys.modules or os.environ.get('HAD_TORCH')
            assert not [name for name in sys.modules.keys() - set(os.environ['BEFORE'].split()) if name.startswith('softnpu')]
            assert not [name for name in os.environ if name.startswith('SOFTNPU_')]
    """)
    before = dict(os.environ)
    os.environ.update(BEFORE=" ".join(sys.modules), HAD_TORCH="1" if "torch" in sys.modules else "")
    for name in [name for name in os.environ if name.startswith("SOFTNPU_")]:
        del os.environ[name]
    try:
        run().assert_outcomes(passed=1)
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_options_are_settings_of_the_run(run, pytester, monkeypatch):
    monkeypatch.setenv("SOFTNPU_DEVICES", "7")
    before = dict(os.environ)
    pytester.makeconftest("import os\nSEEN = dict(os.environ)")  # read after the plugin has set them
    pytester.makepyfile("""
        from conftest import SEEN
        def test():
            assert SEEN['SOFTNPU_DEVICES'] == '3' and SEEN['SOFTNPU_STRICT'] == '1' and SEEN['TORCH_NPU_FALLBACK_CPU_DISABLE'] == '1'
            open('folder', 'w').write(SEEN['XDG_RUNTIME_DIR'])
    """)
    run("--softnpu-cards", "3", "--softnpu-strict", "--softnpu-private", "--npu-forbid-fallback").assert_outcomes(passed=1)
    folder = (pytester.path / "folder").read_text()
    assert folder != os.environ.get("XDG_RUNTIME_DIR") and not os.path.exists(folder)
    assert {name: value for name, value in os.environ.items() if "PYTEST" not in name} == \
           {name: value for name, value in before.items() if "PYTEST" not in name}


def test_options_that_make_no_sense_are_refused(run, pytester, monkeypatch):
    assert run("--softnpu-cards", "65").ret == pytest.ExitCode.USAGE_ERROR
    monkeypatch.setenv("SOFTNPU_RECORD", "/tmp/x")
    result = run("--npu-coverage")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*SOFTNPU_RECORD, which is set already; unset it"])


# A client by itself would need torch: these tests write what softnpu writes.
RECORDS = """
import json, os, pytest
def record(name, kind):
    with open(os.environ["SOFTNPU_RECORD"], "a") as file:
        file.write(json.dumps({"f": name, "a": [["self", {"t": [2], "d": kind, "m": 2}]], "rc": 0, "thread": 1}) + "\\n")
@pytest.mark.parametrize("kind", [0, 1])
def test_add(kind): record("aclnnAdd", kind)
def test_cat(): record("aclnnCat", 0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_coverage_of_the_whole_run(pytester, monkeypatch, workers):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.delenv("SOFTNPU_RECORD", raising=False)
    monkeypatch.setenv("PYTHONPATH", PACKAGE)
    pytester.makepyfile(RECORDS)
    arguments = ["-n", str(workers)] if workers else ["-p", "no:xdist"]
    arguments += ["-p", "softnpu.pytest_plugin", "--npu-coverage", "--npu-coverage-json", "report.json"]
    result = pytester.runpytest_subprocess(*arguments)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*npu coverage*", "aclnnAdd *float16; float32", "aclnnCat *float32", "2 of * operators, 0 collectives"])
    report = json.loads((pytester.path / "report.json").read_text())
    assert report["operators"]["aclnnAdd"] == {"types": ["float16", "float32"], "refused_forms": 0} and report["known"] > 800


@pytest.mark.slow
def test_workers_have_cards_of_their_own(pytester, monkeypatch):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv("PYTHONPATH", PACKAGE)
    pytester.makepyfile("""
        import os, pytest, time
        @pytest.mark.parametrize("n", [0, 1])
        def test(n):
            open(os.environ["PYTEST_XDIST_WORKER"], "w").write(os.environ["XDG_RUNTIME_DIR"])
            time.sleep(0.5)  # so that each worker gets one
    """)
    pytester.runpytest_subprocess("-p", "softnpu.pytest_plugin", "-n", "2", "--softnpu-private").assert_outcomes(passed=2)
    folders = [(pytester.path / f"gw{n}").read_text() for n in (0, 1)]
    assert len(set(folders)) == 2 and not any(map(os.path.exists, folders))


def test_nothing_recorded_is_told(run, pytester, monkeypatch):
    monkeypatch.delenv("SOFTNPU_RECORD", raising=False)
    pytester.makepyfile("def test(): pass")
    monkeypatch.setattr(place, "loaded", lambda: None)  # by the process that runs these tests
    run("--npu-coverage").stdout.fnmatch_lines(["nothing was recorded: no test launched an operator on softnpu*"])
