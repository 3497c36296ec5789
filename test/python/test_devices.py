"""torch.npu: cards, their properties, initialisation."""

import threading

import pytest
import torch

two_cards = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two cards")
pytestmark = pytest.mark.usefixtures("restore_device")


def test_count_and_availability_agree():
    assert torch.npu.is_available()
    assert torch.npu.device_count() == torch.accelerator.device_count() >= 1


@two_cards
@pytest.mark.parametrize("device", [1, "npu:1", torch.device("npu", 1), torch.device("npu:1")])
def test_set_device_takes_every_form(device):
    torch.npu.set_device(device)
    assert torch.npu.current_device() == 1
    assert torch.empty(1, device="npu").device == torch.device("npu:1")


def test_set_device_ignores_negative_and_refuses_nonsense():
    torch.npu.set_device(-1)
    assert torch.npu.current_device() == 0
    with pytest.raises(RuntimeError, match="invalid device ordinal: npu:99"):
        torch.npu.set_device(99)
    with pytest.raises(IndexError, match="1000"):
        torch.npu.set_device(1000)
    with pytest.raises(ValueError, match="Expected a npu device, but got: cpu"):
        torch.npu.set_device("cpu")
    with pytest.raises(TypeError, match="float"):
        torch.npu.set_device(1.5)
    with pytest.raises(ValueError, match="specified index"):
        torch.npu.set_device(None)


@two_cards
def test_device_context_restores_also_after_an_error():
    with torch.npu.device(1):
        assert torch.npu.current_device() == 1
        with torch.npu.device(None), torch.npu.device(-1):
            assert torch.npu.current_device() == 1
    assert torch.npu.current_device() == 0
    with pytest.raises(KeyError), torch.npu.device("npu:1"):
        raise KeyError
    assert torch.npu.current_device() == 0


@two_cards
def test_device_of_follows_tensors_and_storages():
    there = torch.empty(1, device="npu:1")
    for thing in (there, there.untyped_storage()):
        with torch.npu.device_of(thing):
            assert torch.npu.current_device() == 1
    with torch.npu.device_of(torch.empty(1)):
        assert torch.npu.current_device() == 0


@two_cards
def test_current_device_belongs_to_the_thread():
    torch.npu.set_device(1)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.npu.current_device()))
    thread.start()
    thread.join()
    assert seen == [0]
    assert torch.npu.current_device() == 1


def test_properties():
    properties = torch.npu.get_device_properties(0)
    assert properties.name == torch.npu.get_device_name() == torch.npu.get_device_name(device="npu:0")
    assert properties.name.startswith("Ascend")
    assert properties.total_memory > 0
    assert properties.cube_core_num > 0
    assert properties.vector_core_num > 0
    assert properties.name in repr(properties)
    with pytest.raises(RuntimeError, match="npu:99"):
        torch.npu.get_device_properties(99)


def test_capability_comes_from_the_environment(monkeypatch):
    monkeypatch.delenv("TORCH_NPU_DEVICE_CAPABILITY", raising=False)
    assert torch.npu.get_device_capability() is None
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "8.0")
    assert torch.npu.get_device_capability(0) == (8, 0)
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "eight")
    with pytest.raises(ValueError, match=r"major\.minor"):
        torch.npu.get_device_capability()


@two_cards
def test_peer_access():
    assert torch.npu.can_device_access_peer(0, 1)
    assert not torch.npu.can_device_access_peer(0, 0)
    with pytest.raises(RuntimeError, match="npu:99"):
        torch.npu.can_device_access_peer(0, 99)


def test_soc_version_is_the_number_of_the_name(check):
    code = "print(torch.npu.get_device_name(), torch.npu.get_soc_version(), torch.npu.is_bf16_supported())"
    for name, number, bf16 in (("Ascend910B1", 220, True), ("Ascend910B4", 224, True), ("Ascend910A", 102, False)):
        assert check(code, SOFTNPU_SOC=name, TORCH_NPU_RUNTIME="soft") == f"{name} {number} {bf16}"


@pytest.mark.parametrize("name, number", [
    ("910PremiumA", 100), ("910B", 104), ("310P1", 200), ("310P7", 205), ("910B2C", 222), ("910B4-1", 225), ("310B1", 240), ("310B4", 243),
    ("910_9391", 250), ("910_9362", 255), ("950PR_9589", 260), ("unheard of", -1)])
def test_soc_versions_of_all_families(monkeypatch, name, number):
    monkeypatch.setattr("torch_npu._C.get_soc_name", lambda: f"Ascend{name}")
    assert torch.npu.get_soc_version() == number


@two_cards
def test_card_zero_is_a_card():
    torch.npu.set_device(1)
    with torch.npu.device(0):
        assert torch.npu.current_device() == 0
    assert torch.npu.current_device() == 1
    with torch.npu.device("npu:0"), torch.npu.device_of(torch.empty(1, device="npu:1")):
        assert torch.npu.current_device() == 1
    torch.npu.set_device("npu:0")
    assert torch.npu.current_device() == 0


@two_cards
def test_indices_that_device_arguments_mean():
    """As torch.cuda._utils has it, for packages that ask for it."""
    from torch.npu.devices import _get_device_index

    torch.npu.set_device(1)
    assert _get_device_index(None, optional=True) == _get_device_index("npu", optional=True) == 1
    assert _get_device_index("npu:0") == _get_device_index(0, optional=True) == 0
    assert _get_device_index(torch.device("npu:0"), allow_cpu=True) == 0
    assert _get_device_index("cpu", allow_cpu=True) == _get_device_index(torch.device("cpu"), True, True) == -1
    assert _get_device_index(None, optional=True, allow_cpu=True) == 1
    for device in (None, "npu"):
        with pytest.raises(ValueError, match="specified index"):
            _get_device_index(device)


def test_names_that_do_not_exist():
    with pytest.raises(AttributeError, match="module 'torch.npu' has no attribute 'nothing'"):
        torch.npu.nothing  # noqa: B018


def test_questions_do_not_initialise(check):
    code = """
torch.npu.is_available(); torch.npu.device_count(); torch.npu.current_device(); torch.npu.get_device_name()
torch.npu.get_device_properties(0); torch.npu.get_soc_version(); torch.npu.is_bf16_supported()
torch.manual_seed(1); torch.npu.get_rng_state(); torch.npu.initial_seed(); torch.version.cann
torch.accelerator.is_available(); torch.accelerator.current_accelerator(); torch.accelerator.device_count()
assert not torch.npu.is_initialized() and not torch.npu._is_in_bad_fork()
torch.empty(1, device="npu")
assert torch.npu.is_initialized()
"""
    check(code)


def test_init_and_deferred_calls(check):
    code = """
calls = []
torch.npu._lazy_call(lambda: calls.append("late"))
assert calls == []
torch.npu.init(); torch.npu.init()
torch.npu._lazy_call(lambda: calls.append("now"))
assert calls == ["late", "now"], calls
"""
    check(code)


def test_task_queue_level():
    before = torch.npu.get_task_queue_enable()
    try:
        for level in (0, 1, 2):
            torch.npu.set_task_queue_enable(level)
            assert torch.npu.get_task_queue_enable() == level
            assert torch.ones(3, device="npu").sum().item() == 3
        with pytest.raises((RuntimeError, ValueError)):
            torch.npu.set_task_queue_enable(3)
    finally:
        torch.npu.set_task_queue_enable(before)


@two_cards
def test_synchronize_takes_every_form():
    for device in (None, 1, "npu", "npu:1", torch.device("npu:1")):
        torch.npu.synchronize(device)
    with pytest.raises(ValueError, match="cpu"):
        torch.npu.synchronize("cpu")


def test_utilization_is_a_percentage_or_says_what_is_missing():
    try:
        assert 0 <= torch.npu.utilization() <= 100
    except RuntimeError as error:
        assert "aclrtGetDeviceUtilizationRate" in str(error)


MIXED = {
    "stack": lambda a, b: torch.stack([a, b]),
    "cat": lambda a, b: torch.cat([a, b]),
    "where": lambda a, b: torch.where(a > 0, a, b),
    "logical_and": lambda a, b: torch.logical_and(a, b),
    "add": lambda a, b: a + b,
    "masked_fill": lambda a, b: a.masked_fill(a > 0, b[0]),
    "index_put_": lambda a, b: a.index_put_((b.long(),), a.clone()),
    "index": lambda a, b: a[b.long()],
    "copysign_": lambda a, b: a.copysign_(b),
    "nan_to_num": lambda a, b: torch.nan_to_num(a, out=b),
    "generator": lambda a, b: a.uniform_(generator=torch.Generator("npu:1")),
}


@two_cards
@pytest.mark.parametrize("name", MIXED)
def test_operands_of_two_cards_are_refused(name):
    with pytest.raises(RuntimeError, match="npu:1|same device"):
        MIXED[name](torch.ones(3, device="npu:0"), torch.zeros(3, device="npu:1"))


@two_cards
def test_a_tensor_is_filled_with_the_number_of_another_card():
    assert torch.ones(3, device="npu:0").fill_(torch.tensor(7.0, device="npu:1")).tolist() == [7, 7, 7]
