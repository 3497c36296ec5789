"""test/generic/upstream.yaml, what `ci/sweep.sh upstream` runs."""

import re
import runpy
import sys
from pathlib import Path

import yaml

GENERIC = Path(__file__).resolve().parents[1] / "generic"
SETTINGS = yaml.safe_load((GENERIC / "upstream.yaml").read_text())


def test_reasons_are_of_files_that_run():
    for pattern, reason in (SETTINGS["expected"] or {}).items():
        assert pattern.partition("::")[0] in SETTINGS["files"] and len(reason) > 15, pattern


def test_a_test_has_one_name_on_all_devices():
    sys.path.insert(0, str(GENERIC))
    neutral = runpy.run_path(str(GENERIC / "upstream_run.py"))["neutral"]
    names = {neutral(f"test_x.TestAdd{suffix}.test_add_{device}_float32") for suffix, device in (("PRIVATEUSE1", "npu"), ("CPU", "cpu"))}
    assert names == {"TestAdd.test_add_float32"}
    assert all(re.fullmatch(r"\w+(/\w+)*", name) and share >= 1 for name, share in SETTINGS["files"].items())
