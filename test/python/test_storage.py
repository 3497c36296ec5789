"""Storages on the npu, typed and untyped."""

import warnings

import pytest
import torch

import torch_npu

two_cards = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two cards")


def test_untyped_storage_moves():
    host = torch.arange(5, dtype=torch.uint8).untyped_storage()
    there = host.npu()
    assert there.is_npu
    assert not host.is_npu
    assert there.device == torch.device("npu:0")
    assert there.npu() is there
    assert there.get_device() == 0
    assert there.cpu().tolist() == host.tolist() == [0, 1, 2, 3, 4]
    assert host.to(device="npu").is_npu
    assert there.tolist() == [0, 1, 2, 3, 4]


@two_cards
def test_untyped_storage_moves_between_cards():
    there = torch.arange(5, dtype=torch.uint8).npu().untyped_storage().npu(1)
    assert there.device == torch.device("npu:1")
    assert there.cpu().tolist() == [0, 1, 2, 3, 4]


def test_untyped_storage_methods():
    storage = torch.UntypedStorage(4, device="npu")
    storage.fill_(7)
    assert storage.cpu().tolist() == [7, 7, 7, 7]
    clone = storage.clone()
    assert clone.is_npu
    assert clone.data_ptr() != storage.data_ptr()
    storage.resize_(8)
    assert storage.nbytes() == 8
    assert storage.cpu().tolist()[:4] == [7, 7, 7, 7]
    storage.copy_(torch.arange(8, dtype=torch.uint8).untyped_storage())
    assert storage[3] == 3
    assert not storage.is_pinned()


def test_typed_storage_moves():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        typed = torch.FloatStorage([1, 2, 3]).npu()
        assert typed.is_npu
        assert typed.tolist() == [1, 2, 3]
        assert typed.double().tolist() == [1, 2, 3]


def test_tensors_share_their_storage():
    x = torch.zeros(4, device="npu")
    y = x[2:]
    assert y.untyped_storage().data_ptr() == x.data_ptr()
    assert y.storage_offset() == 2
    assert x.untyped_storage().nbytes() == 16


@pytest.mark.parametrize("write", [lambda t: t.add_(1), lambda t: t.copy_(torch.full((2, 2), 9.0)), lambda t: t[0].fill_(7)])
@pytest.mark.parametrize("which", [0, 1])
def test_what_is_written_to_a_lazy_clone_or_its_original_stays_there(write, which):
    def run(device):
        original = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], device=device)[1:].t()
        both = original, torch._lazy_clone(original)
        write(both[which])
        return original, both[1]

    for npu, cpu in zip(run("npu"), run("cpu")):
        assert torch.equal(npu.cpu(), cpu)
        assert npu.stride() == cpu.stride() and npu.storage_offset() == cpu.storage_offset()
        assert npu.untyped_storage().nbytes() == cpu.untyped_storage().nbytes()


def test_lazy_clones_are_cloned_again_and_have_a_gradient():
    leaf = torch.ones(3, device="npu", requires_grad=True)
    torch._lazy_clone(torch._lazy_clone(leaf)).mul_(3).sum().backward()
    assert leaf.grad.tolist() == [3, 3, 3] and leaf.tolist() == [1, 1, 1]


@two_cards
def test_a_lazy_clone_is_on_the_card_of_its_original():
    there = torch.ones(3, device="npu:1")
    clone = torch._lazy_clone(there)
    clone.zero_()
    assert clone.device == there.device and there.tolist() == [1, 1, 1]


def test_a_lazy_clone_of_a_private_format_has_the_elements_in_order():
    blocks = torch_npu.npu_format_cast(torch.arange(12.0, device="npu").half().view(3, 4), torch_npu.Format.FRACTAL_NZ)
    clone = torch._lazy_clone(blocks)
    clone.zero_()
    assert blocks.flatten().tolist() == list(range(12))
