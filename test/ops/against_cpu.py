"""compare(function, *args): the same call on the CPU and on npu, whose CPU fallback must not be used. For operators without an OpInfo."""

import os

import torch

import torch_npu


def _moved(value, device, gradients):
    if isinstance(value, list):
        return [_moved(v, device, gradients) for v in value]
    if not isinstance(value, torch.Tensor):
        return value
    copy = value.detach().clone().to(device)  # some operators change their arguments
    return copy.requires_grad_() if gradients and copy.is_floating_point() else copy


def _outcome(function, args, device, gradients):
    """Results, then the arguments as they are afterwards or their gradients; or the exception."""
    args = [_moved(a, device, gradients) for a in args]
    try:
        results = function(*args)
    except Exception as error:
        return error
    results = list(results) if isinstance(results, tuple) else [results]
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    if not gradients:
        return [r for r in results if r is not None] + tensors
    weights = torch.arange(1.0, results[0].numel() + 1, device=device).view(results[0].shape)
    (results[0].to_dense() * weights).sum().backward()
    return results + [a.grad for a in tensors if a.requires_grad]


def assert_no_fallback() -> None:
    """On a folder like CANN's the CPU computes what CANN has no operator for (test/conftest.py)."""
    assert os.environ["TORCH_NPU_FALLBACK_CPU_DISABLE"] == "0" or not torch_npu.utils.fallback_counts()


def compare(function, *args, gradients=False, **tolerance):
    """Asserts equal results. Where the CPU raises, npu must raise the same type: returns both exceptions, npu's first."""
    torch_npu.utils.reset_fallback_counts()
    expected, got = (_outcome(function, args, device, gradients) for device in ("cpu", "npu"))
    assert_no_fallback()
    if isinstance(expected, Exception):
        assert type(got) is type(expected), got
        return got, expected
    if isinstance(got, Exception):
        raise got
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        assert a.is_npu and a.dtype == b.dtype and a.layout == b.layout and a.shape == b.shape
        dense = [t.to_dense().cpu() for t in (a, b)]
        if b.is_floating_point() and b.itemsize == 1:  # float8 is compared bit by bit otherwise
            dense = [t.float() for t in dense]
        torch.testing.assert_close(*dense, **tolerance)
        if b.layout == torch.sparse_coo:
            assert a.sparse_dim() == b.sparse_dim()
            if a.is_coalesced():  # it must be true: places in order, each once
                torch.testing.assert_close(a._indices().cpu(), torch.unique(a._indices().cpu(), dim=1), rtol=0, atol=0)
    return None


def refuses_alike(function, *args):
    """Asserts that both raise the same type with the same first line."""
    got, expected = compare(function, *args)
    assert str(got).splitlines()[0] == str(expected).splitlines()[0]
