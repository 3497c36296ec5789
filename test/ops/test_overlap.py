"""Operands that share memory with what is written: refused where the CPU refuses them, and right where it takes them."""

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no npu is available")


def outcome(function, device):
    """What is left in ten numbers after `function`, or the first words of its error."""
    x = torch.arange(1.0, 11.0, device=device)
    try:
        function(x)
        torch.npu.synchronize()
    except RuntimeError as error:
        return " ".join(str(error).split()[:4])
    return x.tolist()


def backwards(x):
    return torch.arange(len(x) - 1, -1, -1, device=x.device)


PARTIAL = {
    "add_": lambda x: x[1:].add_(x[:-1]),
    "sub_": lambda x: x[:-1].sub_(x[1:]),
    "mul_": lambda x: x[1:].mul_(x[:-1]),
    "div_": lambda x: x[1:].div_(x[:-1]),
    "add_ of itself": lambda x: x.add_(x),
    "add_ of the other half": lambda x: x[:5].add_(x[5:]),
    "copy_": lambda x: x[1:].copy_(x[:-1]),
    "copy_ of the other half": lambda x: x[:5].copy_(x[5:]),
    "setitem": lambda x: x.__setitem__(slice(1, None), x[:-1]),
    "setitem by index": lambda x: x.__setitem__(backwards(x), x),
    "setitem of a number by index": lambda x: x.__setitem__(backwards(x)[:2], x[0]),
    "setitem of a number by mask": lambda x: x.__setitem__(x > 3, x[0]),
    "where": lambda x: torch.where(x[1:] > 3, x[1:], x[:-1], out=x[:-1]),
    "abs": lambda x: torch.abs(x[1:], out=x[:-1]),
    "logical_and": lambda x: torch.logical_and(x[1:], x[:-1], out=x[:-1]),
    "logical_not": lambda x: torch.logical_not(x[1:], out=x[:-1]),
    "nan_to_num": lambda x: torch.nan_to_num(x[1:], out=x[:-1]),
    "take": lambda x: torch.take(x, backwards(x), out=x),
    "index_select": lambda x: torch.index_select(x, 0, backwards(x), out=x),
    "masked_select": lambda x: torch.masked_select(x, x > 3, out=x),
    "gather": lambda x: torch.gather(x, 0, backwards(x), out=x),
    "index_fill_": lambda x: backwards(x).index_fill_(0, backwards(x), 0),
    "index_fill_ of its own index": lambda x: (i := backwards(x)).index_fill_(0, i, 0),
    "index_fill_ of its own index by a tensor": lambda x: (i := backwards(x)).index_fill_(0, i, i[0]),
    "put_ of itself": lambda x: x.put_(backwards(x), x),
    "put_ into its index": lambda x: (i := backwards(x)).put_(i, i.clone()),
    "masked_fill_ of its own mask": lambda x: (m := x > 3)[1:].masked_fill_(m[:-1], False),
    "abs of itself": lambda x: torch.abs(x.neg_(), out=x),
}


@pytest.mark.parametrize("name", PARTIAL)
def test_operands_that_overlap(name):
    assert outcome(PARTIAL[name], "npu") == outcome(PARTIAL[name], "cpu")


EXPANDED = {
    "uniform_": lambda x: x.uniform_(),
    "normal_": lambda x: x.normal_(),
    "random_": lambda x: x.random_(),
    "bernoulli_": lambda x: x.bernoulli_(),
    "exponential_": lambda x: x.exponential_(),
    "cauchy_": lambda x: x.cauchy_(),
    "geometric_": lambda x: x.geometric_(0.5),
    "log_normal_": lambda x: x.log_normal_(),
    "relu_": lambda x: x.relu_(),
    "hardtanh_": lambda x: F.hardtanh_(x),
    "hardswish_": lambda x: F.hardswish(x, inplace=True),
    "cumsum_": lambda x: x.cumsum_(0),
    "renorm_": lambda x: x.unsqueeze(0).renorm_(2, 0, 1.0),
    "put_": lambda x: x.put_(torch.tensor([0], device=x.device), torch.tensor([1.0], device=x.device)),
    "masked_scatter_": lambda x: x.masked_scatter_(x > 0, torch.ones(4, device=x.device)),
    "fill_": lambda x: x.fill_(2),
    "zero_": lambda x: x.zero_(),
    "add_": lambda x: x.add_(1),
    "index_fill_": lambda x: x.index_fill_(0, torch.tensor([0], device=x.device), 1.0),
    "index_fill_ of a tensor": lambda x: x.index_fill_(0, torch.tensor([0], device=x.device), torch.tensor(7.0, device=x.device)),
    "masked_fill_": lambda x: x.masked_fill_(x > 0, 3.0),
    "masked_fill_ of a tensor": lambda x: x.masked_fill_(x > 0, torch.tensor(3.0, device=x.device)),
    "masked_fill_ of nothing": lambda x: x.masked_fill_(x < 0, 3.0),
    "linspace": lambda x: torch.linspace(0, 1, 4, out=x),
}


@pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors is deprecated")
@pytest.mark.parametrize("name", EXPANDED)
def test_writing_to_an_expanded_tensor(name):
    def function(x):
        EXPANDED[name](x[:1].expand(4))

    assert outcome(function, "npu") == outcome(function, "cpu")


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("name", [name for name in EXPANDED if name.startswith(("index_fill_", "masked_fill_"))])
def test_filling_an_expanded_tensor_warns(name, device):
    with pytest.warns(UserWarning, match="on expanded tensors is deprecated"):
        EXPANDED[name](torch.ones(1, device=device).expand(4))


def test_probabilities_may_be_expanded():
    assert torch.multinomial(torch.ones(1, device="npu").expand(3), 3).sort().values.tolist() == [0, 1, 2]


def test_a_reduction_into_its_operand():
    x = torch.arange(10.0, device="npu")
    torch.nansum(x.view(2, 5), 0, out=x[2:7])
    assert x.tolist() == [0, 1, 5, 7, 9, 11, 13, 7, 8, 9]


RESIZING = {
    "logical_and_": lambda x, y: x.logical_and_(y),
    "logical_or_": lambda x, y: x.logical_or_(y),
    "logical_xor_": lambda x, y: x.logical_xor_(y),
    "add_": lambda x, y: x.add_(y),
    "where": lambda x, y: torch.where(x > 0, x, y, out=x),
    "addr_": lambda x, y: x.view(1, 3).addr_(y[:, 0], y[0]),
    "abs": lambda x, y: torch.abs(y, out=x),
}


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("name", RESIZING)
def test_in_place_operators_keep_the_shape(name):
    results = []
    for device in ("cpu", "npu"):
        base = torch.zeros(6, device=device)
        x = base[:3]
        try:
            RESIZING[name](x, torch.ones(2, 3, device=device))
            refused = False
        except RuntimeError:
            refused = True
        results.append((refused, x.shape, base.tolist()))
    assert results[0] == results[1]
