"""The public surface against the official plugin's (tools/surface): states, the page, and that every name says what it does."""

import re
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools/surface"
sys.path.insert(0, str(TOOLS))
import measure  # noqa: E402


@pytest.fixture(scope="module")
def found():
    return measure.measure()


def test_public_names_are_there_or_say_why(found):
    known = measure.reasons()
    open_ones = {entry: finding for entry, finding in found.items() if finding.state in ("differs", "absent")}
    silent = [entry.name for entry, finding in open_ones.items() if not measure.explain(entry, finding, known)]
    assert silent == []


def test_names_that_packages_use_resolve():
    assert measure.unresolved() == []


def test_refusals_are_one_sentence_with_a_reason(found):
    for entry, finding in found.items():
        if finding.state == "refused":
            assert re.search(r" is not supported: \S.{15,}$", finding.detail, re.DOTALL), (entry.name, finding.detail)


def test_refused_functions_refuse(found):
    for entry, finding in found.items():
        if finding.state == "refused":
            try:
                value = measure.resolve(entry.name)
            except measure.Refused:
                continue
            with pytest.raises((NotImplementedError, TypeError)):  # TypeError: of the official list of arguments
                value()


@pytest.mark.parametrize("official, ours, same", [
    ("(a, b=1, *, c='x')", "(a: int, b: float = 1, *, c: str = 'x') -> None", True),
    ("(a, b=1)", "(a, b=2)", False),
    ("(a, b)", "(b, a)", False),
    ("(a, *, b=None)", "(a, b=None)", False),
    ("(f=<function g at 0x7f>)", "(f=<function g at 0x8e>)", True),
])  # fmt: skip
def test_signatures_are_compared_by_parameters(official, ours, same):
    assert (measure.parameters(official) == measure.parameters(ours)) is same


def test_states_are_told_apart():
    entry = measure.Entry("torch_npu.npu.set_device", "function", "s", "(device)")
    assert measure.judge(entry).state == "same"
    assert measure.judge(entry._replace(signature="(device, other)")).state == "differs"
    assert measure.judge(entry._replace(name="torch_npu.npu.no_such_name")).state == "absent"
    assert measure.judge(entry._replace(name="torch_npu.npu.set_aoe", signature="(dump_path)")).state == "refused"


def test_the_page_is_up_to_date(found):
    assert measure.PAGE.read_text() == measure.page(found), "run python tools/surface/measure.py"
