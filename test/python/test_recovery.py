"""stop_device, restart_device and faults of a card, which softnpu makes on demand (softnpu/runtime/breakdown.h)."""

import ctypes
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import torch_npu
from torch_npu.npu import _recovery

LIBRARY = Path(torch_npu.__path__[0]) / "softnpu/lib64/libsoftnpu.so"
if not LIBRARY.exists():  # an editable build
    LIBRARY = Path(torch_npu._C.runtime_path()) / "libsoftnpu.so"
pytestmark = pytest.mark.skipif(not torch_npu._C.is_softnpu(), reason="another provider than softnpu")
FAULTS = {507053: "UCE ERROR", 507054: "HBM MULTI BIT ECC ERROR", 507055: "SUSPECT MEM ERROR", 507056: "HCCS LINK ERROR",
          507057: "SUSPECT REMOTE ERROR", 507904: "HCCL OP RETRY FAILED"}  # the words that the official client was seen to use


def break_down(code, tensor=None, device=0):
    function = ctypes.CDLL(str(LIBRARY)).softnpu_break_down
    function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
    address, size = (tensor.data_ptr(), tensor.nbytes) if tensor is not None else (None, 0)
    assert function(device, code, address, size) == 0


@pytest.fixture(params=[0, 1, 2], autouse=True)
def level(request):
    before = torch.npu.get_task_queue_enable()
    torch.npu.set_task_queue_enable(request.param)
    yield request.param
    torch.npu.restart_device(0)
    _recovery.set_npu_tensor_unsafe_check_flag(True)
    torch.npu.set_task_queue_enable(before)


def refused(work):
    with pytest.raises(RuntimeError, match=r"^FORCE STOP\. .*restart_device"):
        work()


def test_a_stopped_card_refuses_work_and_keeps_its_memory():
    x = torch.arange(4.0).npu()
    y = x + 1
    torch.npu.synchronize()
    assert torch.npu.stop_device(0) == 0
    for work in (lambda: x + 1, lambda: x.cpu(), lambda: x.sum().item(), x.zero_, torch.npu.synchronize, lambda: x.copy_(torch.ones(4)),
                 torch.npu.current_stream().synchronize, lambda: x.nonzero(), lambda: x.to("cpu", non_blocking=True)):
        refused(work)
    assert torch.empty(3, device="npu").shape == (3,)  # memory is no work
    assert torch.npu.stop_device(0) == 0
    torch.npu.restart_device(0)
    assert y.tolist() == [1, 2, 3, 4]
    assert (x + 1).tolist() == [1, 2, 3, 4]
    torch.npu.synchronize()


def test_other_cards_go_on(restore_device):
    if torch.npu.device_count() < 2:
        pytest.skip("needs two cards")
    x = torch.ones(3, device="npu:1")
    torch.npu.stop_device(0)
    assert (x + 1).sum().item() == 6
    torch.npu.synchronize(1)


def test_work_in_other_threads_is_refused_too(check, level):
    print(check("""
import threading
x = torch.ones(3, device="npu"); torch.npu.synchronize(); found = []
def work():
    try: (x + 1).cpu()
    except RuntimeError as error: found.append(str(error)[:11])
torch.npu.stop_device(0)
for _ in range(2):
    thread = threading.Thread(target=work); thread.start(); thread.join()
assert found == ["FORCE STOP."] * 2, found
torch.npu.restart_device(0)
thread = threading.Thread(target=work); thread.start(); thread.join()
assert len(found) == 2 and (x + 1).sum().item() == 6
""", TASK_QUEUE_ENABLE=str(level)))


def test_who_waits_is_released_when_the_card_is_stopped(check, level):
    """Four seconds of work behind one product are dropped."""
    print(check("""
import threading, time
x = torch.rand(700, 700).npu(); torch.npu.synchronize()
found = []
def train():
    try:
        for _ in range(100000): y = x @ x
        torch.npu.synchronize()
    except RuntimeError as error: found.append(str(error)[:11])
thread = threading.Thread(target=train); thread.start()
time.sleep(0.3)
assert torch.npu.stop_device(0) == 0
thread.join(20); assert not thread.is_alive() and found == ["FORCE STOP."], found
torch.npu.restart_device(0)
torch.npu.synchronize()
assert torch.ones(3, device="npu").sum().item() == 3
""", TASK_QUEUE_ENABLE=str(level), SOFTNPU_ASYNC="1"))


def test_with_all_resources_rebuilt_tensors_are_lost_until_they_are_filled():
    x, y, z = (torch.ones(4).npu() for _ in range(3))
    handle = torch.npu.current_stream().npu_stream
    torch.npu.stop_device(0)
    torch.npu.restart_device(0, rebuild_all_resources=True)
    assert torch.npu.current_stream().npu_stream != handle
    for use in (lambda: x + 1, lambda: x.cpu(), x.zero_, lambda: x[0].item(), lambda: torch.ones(4).npu().copy_(x), lambda: x[:2].fill_(1),
                lambda: torch._foreach_add([x], 1), lambda: torch.add(torch.ones(4).npu(), 1, out=x), lambda: x.nonzero()):
        with pytest.raises(RuntimeError, match="There is unsafe data in a tensor of npu:0"):
            use()
    assert (torch.ones(3).npu() + 1).tolist() == [2, 2, 2]
    x.copy_(torch.full((4,), 5.0))
    y.copy_(x)
    assert (x + y).tolist() == [10] * 4
    assert not _recovery.check_npu_tensor_is_safe(z) and _recovery.check_npu_storage_is_safe(x.untyped_storage())
    _recovery.update_npu_tensor_to_safe(z)
    assert z.tolist() == [1] * 4
    del z
    assert torch.empty(4, device="npu").zero_().sum().item() == 0  # freed memory is new memory


def test_the_check_of_lost_tensors_can_be_left_out():
    x = torch.ones(4).npu()
    torch.npu.stop_device(0)
    torch.npu.restart_device(0, rebuild_all_resources=True, disable_tensor_unsafe_check=True)
    assert x.tolist() == [1] * 4
    _recovery.mark_all_npu_tensor_unsafe(0)
    with pytest.raises(RuntimeError, match="unsafe data"):
        x.tolist()
    _recovery.set_npu_tensor_unsafe_check_flag(False)
    assert x.tolist() == [1] * 4 and not _recovery.get_npu_tensor_unsafe_check_flag()
    _recovery.update_npu_storage_to_safe(x.untyped_storage())


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_is_named_once_in_the_words_that_recovery_programs_look_for(code):
    x = torch.ones(4).npu()
    torch.npu.synchronize()
    break_down(code)
    with pytest.raises(torch.AcceleratorError, match=rf"^{FAULTS[code]}\. .*[.](\n.*)*returned {code} "):
        torch.npu.synchronize()
    assert (x + 1).tolist() == [2] * 4


def test_memory_errors_are_found_in_tensors_in_the_cache_and_outside():
    """0, 1, 2 and 3, as the official client answered for the same faults."""
    assert torch.npu.check_uce_in_memory(0) == 0
    x, kept = torch.ones(4).npu(), torch.ones(4).npu()
    for where, answer in (("tensor", 3), ("cache", 2), ("outside", 1), ("unknown", 0)):
        freed = torch.ones(1 << 20).npu()
        torch.npu.synchronize()
        if where == "tensor":
            break_down(507053, x)
        elif where == "cache":
            break_down(507053, freed)
        elif where == "outside":
            function = ctypes.CDLL(str(LIBRARY)).softnpu_break_down
            assert function(0, 507053, ctypes.c_void_p(x.data_ptr() + (1 << 33)), ctypes.c_size_t(64)) == 0
        else:
            break_down(507053)
        del freed
        with pytest.raises(RuntimeError, match="UCE ERROR"):
            torch.npu.synchronize()
        assert torch.npu.check_uce_in_memory(0) == answer, where
        if where == "tensor":
            assert torch.npu._get_uce_addr() == [{"ptr": x.data_ptr(), "size": 16}]
            with pytest.raises(RuntimeError, match="unsafe data"):
                x.tolist()
            x.copy_(torch.zeros(4))
        torch.npu.stop_device(0)
        torch.npu.restart_device(0)
        assert torch.npu.check_uce_in_memory(0) == 0 and torch.npu._get_uce_addr() == []
        assert x.tolist() == [0] * 4 and kept.tolist() == [1] * 4


def test_a_multi_bit_error_is_never_harmless():
    torch.ones(4).npu()
    break_down(507054)
    with pytest.raises(RuntimeError, match="HBM MULTI BIT ECC ERROR"):
        torch.npu.synchronize()
    assert torch.npu.check_uce_in_memory(0) == 3
    torch.npu.restart_device(0)
    assert torch.npu.check_uce_in_memory(0) == 0


@pytest.mark.parametrize(("code", "words"), [(507899, "The NPU stopped answering"), (507010, "is gone")])
def test_a_lost_card_stays_lost(check, code, words, level):
    print(check(f"""
import ctypes
x = torch.ones(3, device="npu"); torch.npu.synchronize()
assert ctypes.CDLL({str(LIBRARY)!r}).softnpu_break_down(0, {code}, None, 0) == 0
for _ in range(3):
    try: x.tolist()
    except RuntimeError as error: assert {words!r} in str(error).splitlines()[0], error
    else: raise AssertionError("the card answered")
""", TASK_QUEUE_ENABLE=str(level)))


def test_every_code_of_the_runtime_has_a_sentence(level):
    if level:
        pytest.skip("the table does not know levels")
    text = (Path(__file__).parents[2] / "abi/acl_types.h").read_text()
    codes = {int(number): name for name, number in re.findall(r"(ACL(?:NN)?_(?:ERROR|ERR|STRESS|CLEAR)_\w+) = (\d+)", text) if int(number)}
    assert len(codes) > 150
    torch.ones(1).npu()
    for code, name in codes.items():
        if code in (507899, 507010):  # they do not end
            continue
        break_down(code)
        with pytest.raises(RuntimeError) as caught:
            torch.npu.synchronize()
        lines = [line for line in str(caught.value).splitlines() if "[softnpu]" not in line and "softnpu_break_down" not in line]
        sentences = [line for line in lines if line.endswith((".", ").")) and " returned " not in line]
        assert sentences, (name, str(caught.value))
        torch.npu.restart_device(0)
    torch.npu.synchronize()


def test_the_calls_are_those_of_the_official_client(check, tmp_path, level):
    """aclrtDeviceTaskAbort(0, no limit); the repair of what aclrtGetMemUceInfo named; a stream for each in use. Seen in recordings."""
    file = tmp_path / "calls"
    check(f"""
import ctypes
library = ctypes.CDLL({str(LIBRARY)!r})
x = torch.ones(4).npu(); x + 1; torch.npu.synchronize()
library.softnpu_break_down(0, 507053, ctypes.c_void_p(x.data_ptr()), ctypes.c_size_t(16))
try: torch.npu.synchronize()
except RuntimeError: pass
library.softnpu_record(b"stop"); torch.npu.stop_device(0)
library.softnpu_record(b"restart"); torch.npu.restart_device(0, True)
library.softnpu_record(b"end")
""", SOFTNPU_RECORD=str(file), TASK_QUEUE_ENABLE=str(level))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    names = [line.get("f", line.get("mark")) for line in lines]
    assert "aclrtGetMemUceInfo" in names[:names.index("stop")]
    abort = lines[names.index("aclrtDeviceTaskAbort")]
    assert abort["a"] == [["timeout", 0]]
    between = names[names.index("restart") + 1:names.index("end")]
    assert [name for name in between if name not in ("aclrtSynchronizeDevice", "aclrtSetDevice")] == [
        "aclrtMemUceRepair", "aclrtCreateStreamWithConfig"]


@pytest.mark.parametrize("function", [torch.npu.stop_device, torch.npu.restart_device, torch.npu.check_uce_in_memory])
@pytest.mark.parametrize(("device", "error"), [("npu:0", TypeError), (True, TypeError), (99, ValueError), (-1, ValueError)])
def test_bad_cards_are_named(function, device, error):
    with pytest.raises(error, match="device_id"):
        function(device)


def test_tensors_and_storages_are_told_apart():
    with pytest.raises(TypeError, match="Expected a tensor, but got int"):
        _recovery.check_npu_tensor_is_safe(3)
    with pytest.raises(ValueError, match="of the npu"):
        _recovery.update_npu_tensor_to_safe(torch.ones(1))
    with pytest.raises(TypeError, match="Expected a storage, but got Tensor"):
        _recovery.check_npu_storage_is_safe(torch.ones(1))




class Backend:
    def __init__(self):
        self.calls = []

    def pause(self):
        self.calls.append("pause")

    def resume(self):
        self.calls.append("resume")


def test_groups_that_watch_their_work_pause_while_the_card_is_stopped(monkeypatch, level):
    import torch.distributed.distributed_c10d as c10d

    class Group:
        def __init__(self, device, backend):
            self._device_types, self.backend = [torch.device(device)], backend

        def _get_backend(self, device):
            assert device == torch.device("npu")
            return self.backend

    watching, other = Backend(), Backend()
    groups = {Group("npu", watching): 1, Group("cpu", other): 2, Group("npu", object()): 3}
    monkeypatch.setattr(c10d, "_world", SimpleNamespace(pg_map=groups))
    assert torch.npu.stop_device(0) == 0 and watching.calls == ["pause"]
    torch.npu.restart_device(0)
    assert watching.calls == ["pause", "resume"]
    monkeypatch.setattr(_recovery._C, "stop_device", lambda device: False)
    assert torch.npu.stop_device(0) == 1 and watching.calls == ["pause", "resume"] * 2 and other.calls == []


def test_the_last_card_and_what_is_behind_it(level):
    assert torch.npu.check_uce_in_memory(torch.npu.device_count() - 1) == 0
    with pytest.raises(ValueError, match=f"this process sees {torch.npu.device_count()}"):
        torch.npu.check_uce_in_memory(torch.npu.device_count())
    with pytest.raises(ValueError, match="device_id"):
        _recovery.mark_all_npu_tensor_unsafe(-1)


def test_streams_are_kept_unless_all_is_rebuilt(level):
    x = torch.ones(4).npu()
    handle = torch.npu.current_stream().npu_stream
    _recovery.set_npu_tensor_unsafe_check_flag(False)
    torch.npu.restart_device(0)
    assert torch.npu.current_stream().npu_stream == handle and _recovery.get_npu_tensor_unsafe_check_flag() is False
    torch.npu.restart_device(0, True)
    assert _recovery.get_npu_tensor_unsafe_check_flag() is True and _recovery.check_npu_tensor_is_safe(x) is False
    assert _recovery.check_npu_storage_is_safe(x.storage()) is False
    _recovery.update_npu_storage_to_safe(x.storage())
    assert _recovery.check_npu_tensor_is_safe(x) is True and x.tolist() == [1] * 4


def test_the_stress_test_is_refused_with_what_to_do_instead(level):
    for given in ((), ("aic",), ("hccs",)):
        with pytest.raises(NotImplementedError, match="ascend-dmi"):
            torch.npu.stress_detect(*given)
    with pytest.raises(ValueError, match='detect_type must be "aic" or "hccs", got \'x\''):
        torch.npu.stress_detect("x")
