"""Worlds of 2 and 4 ranks that all tests share. A test that breaks its group starts one of its own."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from world import World, start_hccl  # noqa: E402


@pytest.fixture(scope="session")
def pair():
    with World(2, start_hccl) as world:
        yield world


@pytest.fixture(scope="session")
def four():
    with World(4, start_hccl) as world:
        yield world


@pytest.fixture(params=["pair", "four"])
def world(request):
    return request.getfixturevalue(request.param)
