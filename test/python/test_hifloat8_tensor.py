"""torch_npu.HiFloat8Tensor: 8 bits a number, any operator, gradients as if nothing had been rounded."""

import pickle
import sys
from pathlib import Path

import pytest
import torch

import torch_npu

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "custom_ops"))
import cases_mx as oracle  # noqa: E402

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


def rounded(x):
    codes = oracle.to_codes(x, oracle.HIF8, "round").long()
    numbers = torch.tensor([(-1 if code > 127 else 1) * oracle.NUMBERS[oracle.HIF8][code % 128] for code in range(256)])
    return numbers[codes]


def make(x=X):
    return torch_npu.HiFloat8Tensor.to_hifloat8(x.npu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_numbers_are_rounded_and_come_back(dtype):
    t = make(X.to(dtype))
    assert (t.dtype, t.shape, t.device.type, t._data.dtype) == (dtype, X.shape, "npu", torch.uint8)
    assert torch.equal(t.from_hifloat8().cpu().float(), rounded(X.to(dtype)))
    assert [t.float().dtype, t.half().dtype, t.bfloat16().dtype] == [torch.float32, torch.float16, torch.bfloat16]
    assert type(t.cpu()) is torch.Tensor
    assert repr(t).startswith("HiFloat8Tensor(data=tensor(")


def test_operators_compute_in_the_wider_type():
    t, wide = make(), rounded(X)
    torch.testing.assert_close((t @ t.t()).cpu(), wide @ wide.t())
    torch.testing.assert_close((t + 1).cpu(), wide + 1)
    assert type(t + 1) is torch.Tensor


@pytest.mark.parametrize("move", [lambda t: t.view(6, 4), lambda t: t.t(), lambda t: t[1:3], lambda t: t.transpose(0, 1),
                                  lambda t: t.clone(), lambda t: t.reshape(24), lambda t: t.detach(), lambda t: t[2],
                                  lambda t: t.t().contiguous()])
def test_moves_keep_the_codes(move):
    moved = move(make())
    assert type(moved) is torch_npu.HiFloat8Tensor
    assert torch.equal(moved.float().cpu(), move(rounded(X)))


def test_what_is_written_is_rounded():
    t = make()
    t.mul_(3)
    assert torch.equal(t.float().cpu(), rounded(rounded(X) * 3))
    t.copy_(X.npu() * 5)
    assert torch.equal(t.float().cpu(), rounded(X * 5))
    t.data = X.npu()
    assert torch.equal(t.float().cpu(), rounded(X))
    t[1:3].zero_()
    assert t.float()[1:3].abs().sum() == 0
    plain = torch.zeros(4, 6).npu()
    plain.copy_(t)
    assert torch.equal(plain.cpu(), t.float().cpu())


def test_gradients_pass():
    x = X.npu().requires_grad_()
    torch_npu.HiFloat8Tensor.to_hifloat8(x).from_hifloat8().square().sum().backward()
    torch.testing.assert_close(x.grad.cpu(), 2 * rounded(X))


def test_pickle():
    t = pickle.loads(pickle.dumps(make()))
    assert type(t) is torch_npu.HiFloat8Tensor
    assert torch.equal(t.float().cpu(), rounded(X))


def test_wrong_data_is_refused():
    with pytest.raises(ValueError, match="data is of type torch.float32, expected one of 8 bits"):
        torch_npu.HiFloat8Tensor(data=X)


@pytest.mark.parametrize("given", [[1], None, 3.0], ids=str)
def test_what_is_no_tensor_is_refused(given):
    name = type(given).__name__
    with pytest.raises(TypeError, match=f"data must be a tensor of codes, got {name}"):
        torch_npu.HiFloat8Tensor(data=given)
    with pytest.raises(TypeError, match=f"tensor must be a torch.Tensor, got {name}"):
        torch_npu.HiFloat8Tensor.to_hifloat8(given)


def test_views_have_the_strides_of_numbers():
    t, plain = make(), X.npu()
    for move in (lambda x: x.t(), lambda x: x[1:, 2:], lambda x: x[:, ::2], lambda x: x.expand(3, 4, 6), lambda x: x.unsqueeze(1),
                 lambda x: x.as_strided((2, 2), (3, 1), 5)):
        moved, expected = move(t), move(plain)
        assert (moved.shape, moved.stride(), moved.storage_offset()) == (expected.shape, expected.stride(), expected.storage_offset())
        assert moved._data.data_ptr() - t._data.data_ptr() == expected.storage_offset() and moved.dtype == torch.float32
    half = pickle.loads(pickle.dumps(t.to_dtype(torch.float16)))
    assert half.dtype == torch.float16 and torch.equal(half._data, t._data) and half.t().dtype == torch.float16


def test_codes_of_any_type_of_8_bits_are_taken_from_anywhere():
    for dtype in (torch.int8, torch.uint8):
        made = torch_npu.HiFloat8Tensor(data=make()._data.cpu().view(dtype), dtype=torch.bfloat16)
        assert made.device.type == "npu" and made._data.dtype == torch.uint8 and made.dtype == torch.bfloat16
        assert torch.equal(made.float().cpu(), rounded(X))


def test_the_same_codes_under_another_type():
    t = make()
    half = t.to_dtype(torch.float16)
    assert type(half) is torch_npu.HiFloat8Tensor and half.dtype == torch.float16 and half._data.data_ptr() == t._data.data_ptr()
    assert t.from_hifloat8(torch.bfloat16).dtype == torch.bfloat16 and t.from_hifloat8().dtype == torch.float32
    like = torch_npu.HiFloat8Tensor.make_like(half, data=t._data)
    wide = torch_npu.HiFloat8Tensor.make_like(half, data=t._data, dtype=torch.float32)
    assert like.dtype == torch.float16 and wide.dtype == torch.float32
    assert torch_npu.HiFloat8Tensor(data=t._data).dtype == torch.float32


def test_types_that_cannot_be_rounded_go_through_float32():
    assert make(X.double()).dtype == torch.float32
    assert torch.equal(make(X.double()).float().cpu(), rounded(X))


def test_copies_between_tensors_of_codes_and_of_other_shapes():
    t, other = make(), make(X * 2)
    assert t.copy_(other) is t and torch.equal(t._data, other._data) and t._data.data_ptr() != other._data.data_ptr()
    t.copy_(torch.ones(X.shape[-1]))  # broadcast, and from the CPU
    assert torch.equal(t.float().cpu(), torch.ones_like(X))
    wide = torch.zeros_like(X, device="npu")
    assert torch.equal(wide.copy_(other).cpu(), rounded(X * 2))


def test_out_is_written_as_codes():
    t, other = make(), make(X * 2)
    assert torch.add(X.npu(), 1, out=t) is t
    assert torch.equal(t.float().cpu(), rounded(X + 1)) and torch.equal(other.float().cpu(), rounded(X * 2))


def test_codes_have_no_gradient_and_results_do():
    class Codes(torch.Tensor):
        requires_grad = True

    with pytest.raises(ValueError, match="data requires a gradient, expected codes, which have none"):
        torch_npu.HiFloat8Tensor(data=torch.zeros(2, dtype=torch.uint8).as_subclass(Codes))
    x = X.npu().requires_grad_()
    wide = torch_npu.HiFloat8Tensor.to_hifloat8(x).half()
    wide.sum().backward()
    assert torch.equal(x.grad.cpu(), torch.ones_like(X))
