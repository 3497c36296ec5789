"""For all tests: capacity of the cards is shared by the processes of a user, so every pytest process counts in a folder of its own."""

import os
import tempfile
import zlib

import pytest

_folder = tempfile.TemporaryDirectory(prefix="softnpu-records-")
os.environ["XDG_RUNTIME_DIR"] = _folder.name


def pytest_addoption(parser):
    parser.addoption("--part", default="1/1", help="K/N: the tests whose names hash to the K-th of N parts")


def pytest_collection_modifyitems(config, items):
    part, parts = map(int, config.getoption("--part").split("/"))
    if not 1 <= part <= parts:
        raise pytest.UsageError(f"--part {part}/{parts}: expected 1/{parts} to {parts}/{parts}")
    chosen = {True: [], False: []}
    for item in items:
        chosen[zlib.crc32(item.nodeid.encode()) % parts == part - 1].append(item)
    items[:] = chosen[True]
    config.hook.pytest_deselected(items=chosen[False])
