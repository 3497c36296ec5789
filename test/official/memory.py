"""The client's caching allocator over softnpu's memory."""

import gc

import torch

import torch_npu  # noqa: F401

MB = 1 << 20


def check_statistics():
    gc.collect()  # what earlier checks left, so that it does not die in this one
    torch.npu.synchronize()
    torch.npu.empty_cache()
    before = torch.npu.memory_allocated()
    x = torch.empty(8 * MB, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_allocated() - before >= 8 * MB
    assert torch.npu.memory_reserved() >= torch.npu.memory_allocated()
    del x
    assert torch.npu.memory_allocated() == before


def check_empty_cache_returns_memory():
    torch.npu.set_device(0)  # init() alone gives the thread no card
    total = torch.npu.mem_get_info()[1]
    for turn in range(4):  # together more than the card has, no two of a size
        x = torch.empty(total // 2 + turn * 4 * MB, dtype=torch.uint8, device="npu")
        del x
        torch.npu.empty_cache()
        assert torch.npu.memory_reserved() < total // 4


def check_out_of_memory_is_an_exception():
    torch.npu.set_device(0)  # init() alone gives the thread no card
    total = torch.npu.mem_get_info()[1]
    try:
        torch.empty(2 * total, dtype=torch.uint8, device="npu")
    except RuntimeError as error:
        assert "out of memory" in str(error)
    else:
        raise AssertionError("twice the memory of a card was allocated")
    assert torch.ones(3, device="npu").sum().item() == 3
