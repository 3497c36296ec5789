"""The legacy types torch.npu.FloatTensor, torch.npu.FloatStorage and their like."""

import warnings

import pytest
import torch

NAMES = ["BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short"]


@pytest.mark.parametrize("name", NAMES)
def test_tensor_type(name):
    kind, host = getattr(torch.npu, f"{name}Tensor"), getattr(torch, f"{name}Tensor")
    x = kind([1, 0, 1])
    assert x.is_npu
    assert x.dtype == kind.dtype == host.dtype
    assert x.tolist() == [1, 0, 1]
    assert kind(2, 3).shape == (2, 3)
    assert kind().numel() == 0
    assert isinstance(x, kind)
    assert not isinstance(x.cpu(), kind)
    assert not isinstance(x, host)


@pytest.mark.parametrize("name", NAMES)
def test_a_type_is_an_argument_of_type(name):
    kind = getattr(torch.npu, f"{name}Tensor")
    for x in (torch.tensor([1, 0], device="npu:1"), torch.tensor([1, 0])):
        assert isinstance(x.type(kind), kind)
    assert (kind.__name__, kind.__module__) == (f"{name}Tensor", "torch.npu")
    assert x.type(kind).type() == f"torch.npu.{name}Tensor"


@pytest.mark.parametrize("name", [*NAMES, "ComplexFloat", "ComplexDouble"])
def test_storage_type(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = getattr(torch.npu, f"{name}Storage")
        storage = kind([1, 0, 1])
        assert storage.is_npu
        assert storage.tolist() == [1, 0, 1]
        assert isinstance(storage, kind)
        assert not isinstance(storage.cpu(), kind)
        assert kind.dtype == getattr(torch, f"{name}Storage").dtype
        with pytest.raises(RuntimeError, match="NPU"):
            kind.from_buffer(b"1234")
