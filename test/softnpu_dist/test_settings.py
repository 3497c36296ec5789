"""softnpu.environment, softnpu.configure, softnpu.break_down."""

import re
import subprocess
import sys

import pytest

import softnpu
from softnpu.settings import SETTINGS, variables


def test_every_variable_of_the_library_is_a_setting(root):
    """Those that softnpu/runtime/config.cpp reads, but for folders, threads of other libraries and the level of the log."""
    read = set(re.findall(r'"((?:SOFTNPU|ACLNN|ASCEND|HCCL)_[A-Z_]+)"', (root / "softnpu/runtime/config.cpp").read_text()))
    assert read - {"ASCEND_GLOBAL_LOG_LEVEL"} == {variable for variable, _, _ in SETTINGS.values()}


def test_defaults_are_those_of_the_page(root):
    page = (root / "docs/environment.md").read_text()
    for variable, _, default in SETTINGS.values():
        (row,) = re.findall(rf"^\| `{variable}` \| (.*?) \|", page, re.MULTILINE)
        first = row.replace("`", "")
        assert default == first or variable == "SOFTNPU_THREADS", variable


def test_values_become_variables():
    found = variables(cards=2, memory=1 << 30, strict="calls", asynchronous=True, record_once=False, visible=[3, 1], hostile=None)
    assert found == {"SOFTNPU_DEVICES": "2", "SOFTNPU_MEMORY": "1073741824", "SOFTNPU_STRICT": "calls", "SOFTNPU_ASYNC": "1",
                     "SOFTNPU_RECORD_ONCE": "0", "ASCEND_RT_VISIBLE_DEVICES": "3,1"}
    assert variables(strict=True) == {"SOFTNPU_STRICT": "1"}


@pytest.mark.parametrize("settings, sentence", [
    ({"card": 2}, "softnpu has no setting 'card'; there are cards, soc"),
    ({"cards": "2"}, "cards must be a whole number, got '2'"),
    ({"cards": True}, "cards must be a whole number, got True"),
    ({"strict": "types"}, "strict must be True, False or 'calls', got 'types'"),
    ({"asynchronous": 1}, "asynchronous must be True or False, got 1"),
    ({"visible": "0,1"}, r"visible must be a list of cards such as \[0, 3\], got '0,1'"),
    ({"soc": ""}, "soc must be a text, got ''"),
    ({"record": ""}, "record must be a file's path, got ''"),
])
def test_mistakes_name_the_argument(settings, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        softnpu.environment(**settings)


def test_environment_is_for_another_program():
    base = {"PATH": "/bin", "LD_LIBRARY_PATH": "/x"}
    found = softnpu.environment(base, cards=1)
    assert found["PATH"] == "/bin" and found["SOFTNPU_DEVICES"] == "1" and base == {"PATH": "/bin", "LD_LIBRARY_PATH": "/x"}
    assert found["LD_LIBRARY_PATH"] == f"{softnpu.library_folder()}:/x"


CLIENT = """
import ctypes, softnpu
from softnpu import place
softnpu.configure(cards=1, memory="64M")
acl = place.open_runtime()
assert acl.aclInit(None) == 0
try:
    softnpu.configure(cards=2)
except RuntimeError as error:
    print(error)
try:
    softnpu.break_down(0, softnpu.Fault.LINK)
except RuntimeError as error:
    print(error)
assert acl.aclrtSetDevice(0) == 0
stream = ctypes.c_void_p()
assert acl.aclrtCreateStream(ctypes.byref(stream)) == 0 and acl.aclrtSynchronizeStream(stream) == 0
softnpu.break_down(0, softnpu.Fault.LINK)
print(acl.aclrtSynchronizeStream(stream))
"""


def test_a_card_fails_on_demand_and_settings_come_too_late(root):
    done = subprocess.run([sys.executable, "-c", CLIENT], env={"PYTHONPATH": str(root / "softnpu/python"), "PATH": "/bin"},
                          capture_output=True, text=True)
    late, closed, code = done.stdout.splitlines() or pytest.fail(done.stderr)
    assert "softnpu is loaded in this process and has read its settings" in late
    assert closed.startswith("break_down: card 0 cannot fail: ") and "device 0 is not in use" in closed
    assert code == "507056"


def test_a_fault_needs_a_softnpu_that_is_loaded(root):
    code = "import softnpu; softnpu.break_down(0, softnpu.Fault.LINK)"
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(root / "softnpu/python"), "PATH": "/bin"},
                          capture_output=True, text=True)
    assert "this process has not loaded softnpu; use a card first" in done.stderr


def test_codes_of_faults_are_the_abis(root):
    header = (root / "abi/acl_types.h").read_text()
    names = {"MEMORY": "DEVICE_MEM_ERROR", "MEMORY_ECC": "HBM_MULTI_BIT_ECC_ERROR", "MEMORY_SUSPECT": "SUSPECT_DEVICE_MEM_ERROR",
             "LINK": "LINK_ERROR", "REMOTE": "SUSPECT_REMOTE_ERROR", "HEARTBEAT": "LOST_HEARTBEAT", "DRIVER": "DRV_INTERNAL_ERROR"}
    assert names.keys() == softnpu.Fault.__members__.keys()
    for fault in softnpu.Fault:
        assert f"ACL_ERROR_RT_{names[fault.name]} = {fault.value}," in header
