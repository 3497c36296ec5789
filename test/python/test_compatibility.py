"""Which versions fit: the table, the answers, the page and the warning."""

import json
import runpy
import sys
import warnings
from pathlib import Path

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
