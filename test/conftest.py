"""For all tests: capacity of the cards is shared by the processes of a user, so every pytest process counts in a folder of its own."""

import json
import os
import tempfile
import zlib

import pytest

_folder = tempfile.TemporaryDirectory(prefix="softnpu-records-")
os.environ["XDG_RUNTIME_DIR"] = _folder.name

# ci/calls.sh suite: what the tests call is recorded, in a file for each process of pytest, in which the tests are named.
_calls = os.environ.get("CALLS_FOLDER")
if _calls:
    os.environ["SOFTNPU_RECORD"] = os.path.join(_calls, os.environ.get("PYTEST_XDIST_WORKER", "main") + ".jsonl")


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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if _calls:
        with open(os.environ["SOFTNPU_RECORD"], "a") as file:
            file.write(json.dumps({"mark": item.nodeid}) + "\n")
