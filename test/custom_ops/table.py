#!/usr/bin/env python3
"""Runs the tests of the custom operators and of torch_npu.contrib and prints a row for every name: what was compared, and how it ended.

Usage: python test/custom_ops/table.py. An operator with a case in cases.py has a test each for result, gradient, meta shapes and schema;
other names are looked for in the code of the tests. Exit code 1 if a test fails or a name has none.
"""

import inspect
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from torch_npu.contrib import function, module
from torch_npu.custom_ops import NAMES

COLUMNS = ("forward", "backward", "meta", "schema")
BY_CASE = {"test_result": "forward", "test_gradients": "backward", "test_meta": "meta", "test_schema": "schema"}
MENTIONS = {"backward": r"grad|same\(|backward", "meta": r"[Ff]ake|meta"}  # in the code of a test that is not by case


class Results:
    """Collects (name, column) of every test that ran, and whether it passed."""

    def __init__(self):
        self.sources, self.outcomes, self.failed = {}, {}, []

    def pytest_collection_modifyitems(self, items):
        for item in items:
            marks = "".join(str(mark.args) for mark in item.iter_markers("parametrize"))
            self.sources[item.nodeid] = (inspect.getsource(item.function), item.originalname, item.name.partition("[")[2], marks)

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome == "failed":
            self.outcomes[report.nodeid] = report.outcome
            if report.outcome == "failed":
                self.failed.append(report.nodeid)

    def row(self, name):
        cells = {column: Counter() for column in COLUMNS}
        for test, (source, function_name, parameter, marks) in self.sources.items():
            outcome = self.outcomes.get(test, "missing")
            if function_name in BY_CASE:
                if re.match(rf"{name}\b(?!_)", parameter):
                    cells[BY_CASE[function_name]][outcome] += 1
            elif re.search(rf"\b{name}\b", source + marks):
                cells["forward"][outcome] += 1
                for column, pattern in MENTIONS.items():
                    cells[column][outcome] += bool(re.search(pattern, source))
        return [cell(cells[column]) for column in COLUMNS]


def cell(counts):
    if not sum(counts.values()):
        return "-"
    bad = sum(counts.values()) - counts["passed"] - counts["skipped"]
    return f"{bad} failed" if bad else f"ok {counts['passed']}"


def main():
    here, results = Path(__file__).parent, Results()
    folders = [str(here), str(here.parent / "contrib")]
    pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", *folders], plugins=[results])
    names = [("custom operator", sorted(NAMES)), ("contrib function", sorted(function.__all__)), ("contrib module", sorted(module.__all__))]
    print(f"{'':54}" + "".join(f"{column:10}" for column in COLUMNS))
    missing = []
    for kind, listed in names:
        for name in listed:
            row = results.row(name)
            print(f"{kind:18}{name:36}" + "".join(f"{text:10}" for text in row))
            if row[0] == "-":
                missing.append(name)
    print(f"{sum(len(listed) for _, listed in names)} names, {len(results.outcomes)} tests, {len(results.failed)} failed"
          + (f"; without a test: {', '.join(missing)}" if missing else ""))
    return 1 if results.failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
