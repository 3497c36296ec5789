"""Wrong values of options and arguments of torch.npu and torch_npu: one sentence that names the argument and what it takes."""

import pytest
import torch

import torch_npu
from torch_npu.npu import memory, npu_config
from torch_npu.testing import common_utils
from torch_npu.utils import FlopsCounter, combine_tensors

npu = torch.npu
pytestmark = pytest.mark.skipif(not npu.is_available(), reason="no npu is available")


def on_npu(*size):
    return torch.ones(*size, device="npu")


REFUSED = {
    "stream, keyword": (lambda: npu.Stream(priorty=-1), TypeError, "unexpected keyword argument 'priorty'"),
    "stream, keyword beside an id": (lambda: npu.Stream(stream_id=0, device_index=0, color=1), TypeError, "keyword argument 'color'"),
    "stream, id alone": (lambda: npu.Stream(stream_id=0), TypeError, "stream_id needs device_index"),
    "stream, priority": (lambda: npu.Stream(priority="high"), TypeError, "priority must be an int, got str"),
    "stream, sync launch": (lambda: npu.SyncLaunchStream(flags=1), (TypeError, RuntimeError), "'flags'|task queue is at level"),
    "external stream, address": (lambda: npu.ExternalStream("0x8"), TypeError, "stream_ptr must be the address .* got str"),
    "external stream, keyword": (lambda: npu.ExternalStream(npu.Stream().npu_stream, owner=1), TypeError, "keyword argument 'owner'"),
    "stream context": (lambda: npu.stream(3), TypeError, r"stream must be a torch.npu.Stream or None, got int"),
    "event, external": (lambda: npu.Event(external=True), NotImplementedError, r"torch.npu.ExternalEvent\(\)"),
    "pluggable allocator": (lambda: memory.change_current_allocator(3), TypeError, "allocator must be a .*NPUPluggableAllocator, got int"),
    "pool, allocator": (lambda: npu.MemPool("driver"), TypeError, r"allocator must be what .*allocator\(\) gives, or None, got str"),
    "pool, flag": (lambda: npu.MemPool(None, 1), TypeError, "use_on_oom must be True or False, got 1"),
    "pool, use": (lambda: npu.use_mem_pool(3).__enter__(), TypeError, "pool must be a torch.npu.MemPool, got int"),
    "pool, snapshot": (lambda: npu.memory_snapshot(3), TypeError, "mempool_id must be the id of a torch.npu.MemPool"),
    "option, value": (lambda: npu.set_option({"ACL_DEBUG_DIR": None}), TypeError, "value of ACL_DEBUG_DIR must be a text"),
    "option, bool": (lambda: npu.set_option({"ACL_OP_DEBUG_LEVEL": True}), ValueError, "ACL_OP_DEBUG_LEVEL must be one of 0, 1, 2, 3, 4"),
    "attention, switch": (lambda: npu.backends.enable_flash_sdp("no"), TypeError, "enabled must be True or False, got 'no'"),
    "attention, block": (lambda: npu.backends.sdp_kernel(enable_math=1).__enter__(), TypeError, "enable_math must be True or False, got 1"),
    "restart": (lambda: npu.restart_device(0, "yes"), TypeError, "rebuild_all_resources must be True or False, got 'yes'"),
    "overflow": (lambda: npu.utils.npu_check_overflow("x"), TypeError, "grad must be a tensor or a number, got str"),
    "flops": (lambda: FlopsCounter().resume(), RuntimeError, r"call start\(\) first"),
    "hifloat8, codes": (lambda: torch_npu.HiFloat8Tensor(data=3), TypeError, "data must be a tensor of codes, got int"),
    "hifloat8, tensor": (lambda: torch_npu.HiFloat8Tensor.to_hifloat8(3), TypeError, "tensor must be a torch.Tensor, got int"),
    "combine": (lambda: combine_tensors.npu_combine_tensors(3), TypeError, "list_of_tensor must be a list or tuple of tensors"),
    "version to skip by": (lambda: common_utils.SkipIfNotGteCANNVersion("new"), ValueError, "base_version must be a version"),
    "package to skip by": (lambda: common_utils.SkipIfNotGteCANNVersion("8.5", "KERNEL"), ValueError, "module must be one of CANN, "),
    "SoCs to skip by": (lambda: common_utils.SupportedDevices("Ascend910B"), TypeError, "supported_devices must be a list of names"),
    "type of a test tensor": (lambda: common_utils.create_dtype_tensor((2,), "int64"), TypeError, "dtype must be a torch.dtype, got"),
    "prefetch, size": (lambda: torch_npu.npu_prefetch(on_npu(4), None, -3), ValueError, "max_size must be more than 0, got -3"),
    "prefetch, offset": (lambda: torch_npu.npu_prefetch(on_npu(4), None, 4, 16), ValueError, "offset must be within the 16 bytes"),
    "prefetch, host": (lambda: torch_npu.npu_prefetch(torch.ones(4), None, 4), ValueError, "input must be an npu tensor, but is on cpu"),
    "address, none": (lambda: torch_npu._C._construct_storage_from_data_pointer(0, torch.device("npu:0"), 16), ValueError, "address is 0"),
    "address, other card": (lambda: torch_npu._C._construct_storage_from_data_pointer(on_npu(4).data_ptr(), torch.device("npu:1"), 16),
                            ValueError, "address is memory of npu:0, not of npu:1"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_values_are_named(name):
    call, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        call()


def test_a_refused_value_changes_nothing():
    before = torch.backends.cuda.flash_sdp_enabled(), npu_config.matmul.allow_hf32
    with pytest.raises(TypeError):
        npu.backends.sdp_kernel(enable_flash=not before[0], enable_mem_efficient=2).__enter__()
    with pytest.raises(TypeError):
        npu.set_option({"ALLOW_MATMUL_HF32": "disable" if before[1] else "enable", "ACL_DEBUG_DIR": None})
    assert (torch.backends.cuda.flash_sdp_enabled(), npu_config.matmul.allow_hf32) == before


def test_prefetch_asks_the_runtime_for_what_is_there(run, tmp_path):
    process = run("import torch, torch_npu\nx = torch.ones(4, 8, device='npu')\nfor rest in ((100000,), (16, 64), (100, 120)):\n"
                  "    torch_npu.npu_prefetch(x, None, *rest)\ntorch_npu.npu_prefetch(x[:, ::2], None, 1000)\ntorch.npu.synchronize()",
                  SOFTNPU_RECORD=str(tmp_path / "calls.jsonl"))
    assert process.returncode == 0, process.stderr
    import json

    calls = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert [dict(call["a"])["size"] for call in calls if call["f"] == "aclrtCmoAsync"] == [128, 16, 8, 124]
