"""Storages on the npu, typed and untyped."""

import warnings

import pytest
import torch

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
