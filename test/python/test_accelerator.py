"""torch.accelerator and the other device-independent ways to the npu."""

import pytest
import torch

two_cards = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two cards")
pytestmark = pytest.mark.usefixtures("restore_device")


def test_the_npu_is_the_accelerator():
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("npu")
    assert torch.get_device_module() is torch.npu
    assert torch.device(0) == torch.device("npu:0")
    assert torch._C._get_privateuse1_backend_name() == "npu"


@two_cards
def test_device_index():
    torch.accelerator.set_device_index(1)
    assert torch.accelerator.current_device_index() == torch.npu.current_device() == 1
    with torch.accelerator.device_index(0):
        assert torch.npu.current_device() == 0
    assert torch.npu.current_device() == 1


def test_streams():
    stream = torch.Stream("npu:0")
    assert stream.device == torch.device("npu:0")
    torch.accelerator.set_stream(stream)
    assert torch.npu.current_stream() == stream == torch.accelerator.current_stream()
    torch.npu.set_stream(torch.npu.default_stream())
    with stream:
        assert torch.accelerator.current_stream() == stream
    torch.accelerator.synchronize()
    assert stream.query()


def test_events():
    start, end = torch.Event("npu", enable_timing=True), torch.Event("npu", enable_timing=True)
    start.record()
    torch.ones(10, device="npu").sum()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 0


def test_memory():
    torch.accelerator.empty_cache()
    before = torch.accelerator.memory_allocated()
    x = torch.empty(1 << 20, dtype=torch.uint8, device="npu")
    assert torch.accelerator.memory_allocated() == before + x.numel() == torch.npu.memory_allocated()
    assert torch.accelerator.max_memory_allocated() >= before + x.numel()
    assert torch.accelerator.memory_stats()["allocated_bytes.all.current"] == before + x.numel()
    free, total = torch.accelerator.get_memory_info()
    assert 0 < free < total


def test_capability_lists_dtypes():
    assert torch.float32 in torch.accelerator.get_device_capability()["supported_dtypes"]


def test_generators():
    assert torch.Generator("npu").device == torch.device("npu:0")
    assert torch.Generator("npu:0").manual_seed(3).initial_seed() == 3
