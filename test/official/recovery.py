"""Stopping and restarting a card, and faults that softnpu makes on demand: what torch_npu's own answers are compared with."""

import ctypes

import torch

import torch_npu  # noqa: F401

WORDS = {507053: "UCE ERROR", 507054: "HBM MULTI BIT ECC ERROR", 507055: "SUSPECT MEM ERROR", 507056: "HCCS LINK ERROR",
         507057: "SUSPECT REMOTE ERROR", 507904: "HCCL OP RETRY FAILED"}


def error_of(work):
    try:
        work()
    except RuntimeError as error:
        return str(error)
    return ""


def break_down(code, tensor):
    library = ctypes.CDLL("libsoftnpu.so")
    assert library.softnpu_break_down(0, code, ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(tensor.nbytes)) == 0


def check_a_stopped_card_refuses_operators_until_it_is_restarted():
    x = torch.arange(4.0).npu()
    torch.npu.synchronize()
    assert torch.npu.stop_device(0) == 0
    error = error_of(lambda: x + 1)
    assert "FORCE STOP" in error, error
    torch.npu.restart_device(0)
    assert (x + 1).tolist() == [1, 2, 3, 4]


def check_rebuilt_resources_make_tensors_unsafe_until_they_are_filled():
    x = torch.ones(4).npu()
    torch.npu.synchronize()
    assert torch.npu.stop_device(0) == 0
    torch.npu.restart_device(0, rebuild_all_resources=True)
    assert "unsafe data" in error_of(lambda: x + 1)
    x.copy_(torch.full((4,), 3.0))
    assert (x + 1).tolist() == [4] * 4


def check_a_memory_error_in_a_tensor_is_found_and_repaired():
    x = torch.ones(4).npu()
    torch.npu.synchronize()
    break_down(507053, x)
    assert WORDS[507053] in error_of(torch.npu.synchronize)
    assert torch.npu.check_uce_in_memory(0) == 3
    torch.npu.stop_device(0)
    torch.npu.restart_device(0)
    x.copy_(torch.zeros(4))
    assert torch.npu.check_uce_in_memory(0) == 0 and x.tolist() == [0] * 4


def check_faults_are_named():
    x = torch.ones(4).npu()
    for code, words in WORDS.items():
        torch.npu.synchronize()
        break_down(code, x)
        assert words in error_of(torch.npu.synchronize)
        torch.npu.stop_device(0)
        torch.npu.restart_device(0)
