"""ASCEND_RT_VISIBLE_DEVICES: which cards a process sees, and what happens to nonsense and to late changes."""

import pytest

COUNT = "print(torch.npu.device_count(), torch.npu.is_available())"


@pytest.fixture
def softnpu():
    return {"TORCH_NPU_RUNTIME": "soft", "SOFTNPU_DEVICES": "8"}


@pytest.mark.parametrize(
    ("text", "count"), [(None, 8), ("0,1,2,3", 4), ("3,1", 2), ("", 0), ("zero", 0), ("0,1,x", 2), ("99", 0), ("0,99", 1)]
)
def test_counts(check, softnpu, text, count):
    assert check(COUNT, ASCEND_RT_VISIBLE_DEVICES=text, **softnpu) == f"{count} {count > 0}"


def test_cards_are_renumbered_in_the_given_order(check, softnpu):
    uuids = "print([torch.npu.get_device_properties(i).uuid for i in range(torch.npu.device_count())])"
    everything = eval(check(uuids, **softnpu))
    assert len(set(everything)) == 8
    assert eval(check(uuids, ASCEND_RT_VISIBLE_DEVICES="3,1", **softnpu)) == [everything[3], everything[1]]


@pytest.mark.parametrize("text", ["", "zero", "99"])
def test_no_visible_card_is_an_error_that_names_the_variable(run, softnpu, text):
    code = "import torch, torch_npu; torch.empty(1, device='npu')"
    process = run(code, ASCEND_RT_VISIBLE_DEVICES=text, **softnpu)
    assert process.returncode == 1
    assert f"ASCEND_RT_VISIBLE_DEVICES is '{text}'" in process.stderr


def test_a_card_outside_of_the_list_is_unknown(run, softnpu):
    code = "import torch, torch_npu; torch.empty(1, device='npu:2')"
    process = run(code, ASCEND_RT_VISIBLE_DEVICES="3,1", **softnpu)
    assert "invalid device ordinal: npu:2" in process.stderr
    assert "npu:0 to npu:1" in process.stderr


def test_change_before_first_use_counts_and_later_ones_warn(check, softnpu):
    code = """
import os, warnings
os.environ["ASCEND_RT_VISIBLE_DEVICES"] = "0,1"
assert torch.npu.device_count() == 2
torch.empty(1, device="npu:1")
os.environ["ASCEND_RT_VISIBLE_DEVICES"] = "0,1,2,3"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert torch.npu.device_count() == 2
    assert torch.npu.device_count() == 2
assert len(caught) == 1 and "changed after the NPU was initialised" in str(caught[0].message), caught
"""
    check(code, **softnpu)
