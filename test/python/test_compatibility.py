"""Which versions fit: the table, the answers, the page and the warning."""

import json
import runpy
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import torch_npu
from torch_npu.utils import _compatibility, compatibility

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("asked, fits, words", [
    ({"cann": "8.5.0", "torch": "2.9.0", "python": "3.11"}, True, "torch_npu 2.9.0"),
    ({"cann": "8.5.0", "torch": "2.8.0"}, True, "2.8.0.post2"),
    ({"cann": "8.3.RC1.alpha003", "torch": "2.7.1"}, True, "2.7.1"),
    ({"cann": "8.3.rc1", "torch": "2.9.0"}, False, "torch 2.9.0 was published with CANN 8.5.0, not with 8.3.rc1"),
    ({"cann": "8.5.0", "torch": "2.9.0", "python": "3.9"}, False, "was published for Python 3.10, 3.11, not for 3.9"),
    ({"cann": "8.1.RC1", "torch": "2.9.9"}, False, "CANN 8.1.RC1 was published with torch 2.5.1, 2.4.0, 2.3.1, 2.1.0, not with 2.9.9"),
    ({"cann": "4.0", "torch": "0.4"}, False, "CANN 4.0 and torch 0.4 is in no published pairing"),
    ({"torch": "2.13.0", "python": "3.11.7"}, True, "2.13.0+oss"),
    ({"torch": "2.1.0+cpu", "python": "3.8"}, True, "2.1.0.post17"),
    ({"cann": "8.2.RC10"}, False, "no published pairing"),
    ({"python": "3.7"}, True, "1.11.0"),
])  # fmt: skip
def test_answers(asked, fits, words):
    answer = compatibility(**asked)
    assert bool(answer) is answer.fits is fits and words in answer.reason
    assert bool(answer.rows) is fits


SMALL = {
    "pairing": [{"cann": cann, "torch": torch, "adapter": adapter} for cann, torch, adapter in (
        ("8.0.RC1", "2.1.0", "a1"), ("8.0.RC1", "2.2.0", "a2"), ("8.1.0", "2.1.0", "a1"), ("8.1.0", "2.10.0", "a3"))],
    "python": {"2.1.0": ["3.9", "3.10"], "2.2.0": ["3.10", "3.8"]},
}  # fmt: skip
NOWHERE = "is in no published pairing; docs/maintenance.md lists those"


@pytest.mark.parametrize("cann, torch, python, rows, reason", [
    ("8.0.RC1", None, None, (0, 1), "published together; torch_npu a1, a2"),
    (None, "2.1.0", None, (0, 2), "published together; torch_npu a1"),
    ("8.0.rc1.alpha1", "2.2.0+cpu", "3.8.19", (1,), "published together; torch_npu a2"),
    ("8.0.RC1", None, "3.8", (1,), "published together; torch_npu a2"),
    (None, None, "3.10", (0, 1, 2), "published together; torch_npu a1, a2"),
    ("8.0.RC1", None, "3.11", (), "torch_npu for torch 2.1.0 was published for Python 3.8, 3.9, 3.10, not for 3.11"),
    (None, "2.10.0", "3.9", (), "torch_npu for torch 2.10.0 was published for no Python version that is known, not for 3.9"),
    ("9.9.9", "2.1.0", "3.9", (), "torch 2.1.0 was published with CANN 8.0.RC1, 8.1.0, not with 9.9.9"),
    ("8.1.0", "9.9.9", None, (), "CANN 8.1.0 was published with torch 2.1.0, 2.10.0, not with 9.9.9"),
    ("8.0.RC1", "2.10.0", None, (), "torch 2.10.0 was published with CANN 8.1.0, not with 8.0.RC1"),
    ("7.0.0", None, None, (), f"CANN 7.0.0 {NOWHERE}"), (None, "1.0.0", None, (), f"torch 1.0.0 {NOWHERE}"),
    ("7.0.0", "1.0.0", "3.9", (), f"CANN 7.0.0 and torch 1.0.0 {NOWHERE}"), ("8.0.RC10", None, None, (), f"CANN 8.0.RC10 {NOWHERE}"),
])  # fmt: skip
def test_answers_of_a_small_table(monkeypatch, cann, torch, python, rows, reason):
    monkeypatch.setattr(_compatibility, "table", lambda: SMALL)
    answer = compatibility(cann=cann, torch=torch, python=python)
    assert answer == (bool(rows), reason, tuple(SMALL["pairing"][i] for i in rows))
    assert _compatibility._unpaired(None, "2.1.0") == "torch 2.1.0 was published with CANN 8.0.RC1, 8.1.0"
    assert _compatibility._unpaired("8.1.0", None) == "CANN 8.1.0 was published with torch 2.1.0, 2.10.0"


@pytest.mark.parametrize("published, given, same", [
    ("8.3.RC1", "8.3.RC1", True), ("8.3.RC1", "8.3.rc1.alpha003", True), ("8.3.RC1", "8.3.RC10", False), ("8.3.0", "8.3x0", False),
    ("8.3.0", "8.3", False), ("8.3.0", "8.3.0.post1", True), ("8.3.0", "18.3.0", False),
])  # fmt: skip
def test_versions_that_are_the_same(published, given, same):
    assert _compatibility._same(published, given) is same


@pytest.mark.parametrize("available, soft, asked", [(True, False, "8.0.RC1"), (True, True, None), (False, False, None)])
def test_without_arguments_this_machine_is_asked_about(monkeypatch, available, soft, asked):
    """CANN only if it is the runtime."""
    monkeypatch.setattr(_compatibility, "table", lambda: SMALL)
    answers = {"is_available": available, "is_softnpu": soft, "cann_version": "8.0.RC1"}
    monkeypatch.setattr(torch_npu, "_C", SimpleNamespace(**{name: lambda value=value: value for name, value in answers.items()}))
    monkeypatch.setattr(_compatibility, "_torch", SimpleNamespace(__version__="2.2.0+cpu"))
    monkeypatch.setattr(_compatibility.platform, "python_version", lambda: "3.8.1")
    assert compatibility() == compatibility(cann=asked, torch="2.2.0", python="3.8") and compatibility().rows == (SMALL["pairing"][1],)
    assert not compatibility(cann="8.1.0", torch="2.2.0") and compatibility(cann="8.1.0", torch="2.1.0")


def test_this_machine_fits():
    assert compatibility(), compatibility().reason


@pytest.mark.parametrize("asked", [{"cann": "new"}, {"torch": 2}, {"python": ""}])
def test_what_is_no_version_is_refused(asked):
    with pytest.raises(ValueError, match=f"{next(iter(asked))} must be a version such as"):
        compatibility(**asked)


def test_the_table_names_this_release():
    ours = _compatibility.table()["this_release"]
    assert ours["adapter"] == torch_npu.__version__ and ours["torch"] == torch.__version__.partition("+")[0]
    assert ".".join(map(str, sys.version_info[:2])) in ours["python"]
    assert {row["torch"] for row in _compatibility.table()["pairing"]} >= set(_compatibility.table()["python"])
    json.loads((ROOT / "torch_npu/compatibility.json").read_text())


def test_an_unpaired_cann_warns_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for version in ("8.0.0", "8.0.0", "9.2.0", ""):
            _compatibility.warn_if_unpaired(version)
    assert [str(w.message).partition(":")[0] for w in caught] == ["torch 2.13.0 was published with CANN 9.2.0, not with 8.0.0"]


def test_the_page_is_up_to_date():
    tool = runpy.run_path(str(ROOT / "tools/make_maintenance.py"))
    assert tool["PAGE"].read_text() == tool["page"](), "run python tools/make_maintenance.py"


def test_the_readme_says_which_cann():
    line = next(line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("Which CANN?"))
    assert all(version in line for version in _compatibility.table()["this_release"]["cann"])
