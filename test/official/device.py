"""Devices, names, properties, printing."""

import torch

import torch_npu  # noqa: F401


def check_cards_are_there():
    assert torch.npu.is_available()
    assert torch.npu.device_count() == 8
    assert torch.npu.get_device_name(0).startswith("Ascend910")


def check_current_device_follows_set_device():
    torch.npu.set_device(1)
    try:
        assert torch.npu.current_device() == 1
        assert torch.empty(1, device="npu").device == torch.device("npu:1")
    finally:
        torch.npu.set_device(0)


def check_properties():
    properties = torch.npu.get_device_properties(0)
    assert properties.total_memory > 0
    assert properties.name.startswith("Ascend910")


def check_mm_of_the_readme():
    x, y = torch.randn(2, 2), torch.randn(2, 2)
    z = x.npu().mm(y.npu())
    assert z.device == torch.device("npu:0")
    torch.testing.assert_close(z.cpu(), x.mm(y))


def check_printing():
    x = torch.tensor([[1.5, -2.0], [3.25, float("inf")]])
    assert repr(x.npu()) == repr(x)[:-1] + ", device='npu:0')"
    assert repr(torch.arange(3).npu()) == "tensor([0, 1, 2], device='npu:0')"


def check_deterministic_mode():
    torch.use_deterministic_algorithms(True)
    try:
        x = torch.randn(4, 4)
        torch.testing.assert_close(x.npu().mm(x.npu()).cpu(), x.mm(x))
    finally:
        torch.use_deterministic_algorithms(False)
