"""Limits of cores: once in a process, and with the calls that the official client was seen to make."""

import json

import pytest
import torch


def test_limits_are_what_was_set_once(check):
    print(check("""
n = torch.npu
assert n.get_device_limit(0) == {"cube_core_num": 24, "vector_core_num": 48}
n.set_device_limit(0, 12, vector_num=20)
assert n.get_device_limit(0) == {"cube_core_num": 12, "vector_core_num": 20} and n.get_device_limit(1)["cube_core_num"] == 24
try:
    n.set_device_limit(1, 3, 3)
except RuntimeError as error:
    assert "once in a process" in str(error)
else:
    raise AssertionError("a second call was taken")
assert (torch.ones(3).npu() + 1).sum().item() == 6
"""))


def test_calls_are_those_of_the_official_client(check, tmp_path):
    """Two of each, first the cube cores; the client was watched with SOFTNPU_RECORD."""
    file = tmp_path / "calls"
    check("torch.npu.get_device_limit(0); torch.npu.set_device_limit(0, 12, 20)", SOFTNPU_RECORD=str(file))
    names = [json.loads(line).get("f", "") for line in file.read_text().splitlines()]
    found = [name for name in names if name.endswith("ResLimit")]
    assert found == ["aclrtGetDeviceResLimit"] * 2 + ["aclrtSetDeviceResLimit"] * 2


@pytest.mark.parametrize(("arguments", "error", "words"), [
    ((0, 0, 3), ValueError, "cube_num must be 1 or more, or -1, got 0"), ((0, 3, -5), ValueError, "vector_num must be"),
    ((0, "a"), TypeError, "cube_num must be an int, but got str"), ((0,), ValueError, "give cube_num or vector_num"),
    ((99, 3, 3), AssertionError, "Invalid device id"), (("npu:0", 3), TypeError, "device must be an int, but got str"),
])
def test_bad_limits_are_named_and_change_nothing(arguments, error, words):
    before = torch.npu.get_device_limit(0)
    with pytest.raises(error, match=words):
        torch.npu.set_device_limit(*arguments)
    assert torch.npu.get_device_limit(0) == before
