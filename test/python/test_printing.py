"""repr() of npu tensors: the CPU's text and the device."""

import pytest
import torch


def text_of(x):
    return repr(x).replace(" ", "").replace("\n", "")


TENSORS = [
    torch.tensor([[1.0, 2.5], [-3.0, 4.0]]),
    torch.tensor([1e-8, 1e8]),
    torch.tensor([1.0, float("nan"), float("inf"), -float("inf")]),
    torch.tensor([True, False]),
    torch.arange(3),
    torch.arange(3, dtype=torch.uint8),
    torch.tensor(3.5),
    torch.tensor([1 + 2j, 3 - 4j]),
    torch.tensor([1.5, 2.5], dtype=torch.float16),
    torch.tensor([1.5, 2.5], dtype=torch.bfloat16),
    torch.tensor([1.5, 2.5], dtype=torch.float64),
    torch.arange(5000.0),
    torch.arange(10000).reshape(100, 100),
    torch.empty(0),
    torch.empty(2, 0, 3),
    torch.tensor([1.0, 2.0]).requires_grad_(),
]


@pytest.mark.parametrize("x", TENSORS, ids=lambda x: f"{x.dtype}-{tuple(x.shape)}")
def test_prints_like_the_cpu_plus_device(x):
    host, there = text_of(x), text_of(x.detach().npu().requires_grad_(x.requires_grad))
    assert "device='npu:0'" in there
    assert there.replace(",device='npu:0'", "").replace("device='npu:0',", "") == host


def test_print_options_and_formatting():
    x = torch.tensor([1.23456789]).npu()
    with torch._tensor_str.printoptions(precision=2):
        assert repr(x) == "tensor([1.23], device='npu:0')"
    assert f"{torch.tensor(2.5).npu():.3f}" == "2.500"
    assert str(torch.nn.Parameter(x)).startswith("Parameter containing:\ntensor([1.2346], device='npu:0'")


def test_only_what_is_shown_is_copied(monkeypatch):
    from torch_npu import _printing

    edges, copied = _printing._edges, []
    monkeypatch.setattr(_printing, "_edges", lambda *args: copied.append(edges(*args)) or copied[-1])
    repr(torch.zeros(100, 50).npu())
    assert [tuple(part.shape) for part in copied if not part.is_npu][-1] == (6, 6)


def test_quick_verification_of_the_readme(check):
    code = "x = torch.randn(2, 2).npu(); y = torch.randn(2, 2).npu(); z = x.mm(y); print(z)"
    assert check(code).endswith("device='npu:0')")
