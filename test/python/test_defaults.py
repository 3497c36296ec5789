"""What a call may leave out means what it means with the official torch_npu: official_defaults.txt is what that says of itself."""

import sys
from pathlib import Path

import pytest

import torch_npu  # noqa: F401

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "official"))
import defaults  # noqa: E402

OFFICIAL = defaults.recorded()
FUNCTIONS = {name: function for name in OFFICIAL if (function := defaults.resolved(name))}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equals_the_official_default(name):
    ours, theirs = defaults.defaults(FUNCTIONS[name]), OFFICIAL[name]
    assert {k: v for k, v in ours.items() if k in theirs} == {k: v for k, v in theirs.items() if k in ours}


def test_most_functions_are_here():
    assert len(FUNCTIONS) >= 110
