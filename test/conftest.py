"""For all tests: the CPU fallback is forbidden, and capacity of the cards, which the processes of a user share, is counted in a folder of
each pytest process's own.
"""

import json
import os
import tempfile
import zlib
from pathlib import Path

import pytest
import yaml

_folder = tempfile.TemporaryDirectory(prefix="softnpu-records-")
os.environ["XDG_RUNTIME_DIR"] = _folder.name

_calls = os.environ.get("CALLS_FOLDER")
# In every process that a test starts, too. On a folder like CANN's the CPU computes what CANN has no operator for.
os.environ["TORCH_NPU_FALLBACK_CPU_DISABLE"] = "0" if _calls else "1"

# ci/calls.sh suite: what the tests call is recorded, in a file for each process of pytest, in which the tests are named.
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
    if _calls:
        reasons = yaml.safe_load((Path(__file__).parent / "expect/cann_like.yaml").read_text())
        for item in items:
            whole, one = (reasons.get(name) for name in (item.nodeid.partition("[")[0], item.nodeid))
            if whole or one:
                item.add_marker(pytest.mark.xfail(reason=whole or one, strict=bool(one)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if _calls:
        with open(os.environ["SOFTNPU_RECORD"], "a") as file:
            file.write(json.dumps({"mark": item.nodeid}) + "\n")
