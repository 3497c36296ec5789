"""test/promised.md: the tests that it names exist, and docs/faq.md has a word on every trouble."""

import re

import pytest


@pytest.fixture
def rows(root):
    lines = (root / "test/promised.md").read_text().splitlines()
    return [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines if re.match(r"\| .*::", line)]


def test_every_promise_has_a_test_that_exists(root, rows):
    assert len(rows) > 50
    missing = []
    for promise, test in rows:
        path, name = test.split("::")
        if not (root / path).is_file() or f"def {name}(" not in (root / path).read_text():
            missing.append(f"{promise}: {test}")
    assert missing == []


def test_no_promise_stands_without_a_test(root):
    tables = [line for line in (root / "test/promised.md").read_text().splitlines() if line.startswith("| ")]
    assert [line for line in tables if "::" not in line and not line.endswith(("| test |", "--- |"))] == []


def test_troubles_of_other_projects_are_explained(root):
    page = (root / "docs/faq.md").read_text()
    for word in ("USE_XNNPACK=0", "BUILD_BREAKPAD=0", "gcc 9.4", "torchvision", "/dev/davinci_manager", "GOMP_CPU_AFFINITY", "libblas.so"):
        assert word in page, word
