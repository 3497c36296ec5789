"""Samplers of continuous and discrete distributions: their moments, and an end for every argument, as on the CPU."""

import math

import pytest
import torch

INF, NAN = math.inf, math.nan
COUNT = 20000


def same(npu, cpu):
    torch.testing.assert_close(npu.cpu(), cpu, rtol=1e-3, atol=0, equal_nan=True)


def distance(npu, cpu):
    """Kolmogorov and Smirnov: the largest distance of the two distribution functions."""
    npu, cpu = npu.double().cpu().flatten().sort()[0], cpu.double().flatten().sort()[0]
    points = torch.cat([npu, cpu])
    return (torch.searchsorted(npu, points, right=True) - torch.searchsorted(cpu, points, right=True)).abs().max() / len(cpu)


@pytest.mark.parametrize("alpha", [INF, NAN, -1.0, -INF, 0.0, 1e30])
def test_gamma_of_an_odd_shape_is_the_cpus(alpha):
    shape = torch.tensor([alpha])
    same(torch._standard_gamma(shape.npu()), torch._standard_gamma(shape))


@pytest.mark.parametrize("rate", [INF, 1e30, 0.0])
def test_poisson_of_an_odd_rate_is_the_cpus(rate):
    rates = torch.tensor([rate])
    same(torch.poisson(rates.npu()), torch.poisson(rates))


@pytest.mark.parametrize(("count", "prob"), [(1e30, 0.5), (-1.0, 0.5), (10.0, NAN), (10.0, 2.0)])
def test_binomial_of_odd_arguments_is_the_cpus(count, prob):
    n, p = torch.tensor([count]), torch.tensor([prob])
    same(torch.binomial(n.npu(), p.npu()), torch.binomial(n, p))


def test_binomial_of_an_infinite_count_is_infinite_or_nan():
    """Which of the two is drawn, on the CPU as well."""
    n, p = torch.full((64,), INF), torch.full((64,), 0.5)
    assert not torch.isfinite(torch.binomial(n, p)).any()
    assert not torch.isfinite(torch.binomial(n.npu(), p.npu())).any()


def test_binomial_of_no_number_is_no_number():
    assert torch.binomial(torch.tensor([NAN]).npu(), torch.tensor([0.5]).npu()).isnan().all()


@pytest.mark.parametrize("name", ["Beta", "Gamma", "StudentT", "Dirichlet"])
def test_distribution_of_infinity_returns(name):
    distribution = getattr(torch.distributions, name)
    infinite, one = torch.tensor([INF]).npu(), torch.ones(1).npu()
    arguments = {"Dirichlet": [torch.tensor([INF, 1.0]).npu()], "StudentT": [infinite]}.get(name, [infinite, one])
    assert distribution(*arguments, validate_args=False).sample().numel() >= 1


@pytest.mark.parametrize("rate", [0.5, 5.0, 9.9, 10.1, 40.0, 1e4])
def test_poisson_has_its_mean_and_variance(rate):
    torch.manual_seed(0)
    x = torch.poisson(torch.full((COUNT,), rate, dtype=torch.float64).npu()).cpu()
    assert abs(x.mean() - rate) < 5 * math.sqrt(rate / COUNT)
    assert abs(x.var() / rate - 1) < 5 * math.sqrt((2 + 1 / rate) / COUNT)


@pytest.mark.parametrize(("count", "prob"), [(5, 0.3), (40, 0.5), (1000, 0.01), (100000, 0.7), (10**9, 0.25)])
def test_binomial_has_its_mean_and_variance(count, prob):
    torch.manual_seed(0)
    n = torch.full((COUNT,), float(count), dtype=torch.float64).npu()
    x = torch.binomial(n, torch.full_like(n, prob)).cpu()
    variance = count * prob * (1 - prob)
    assert abs(x.mean() - count * prob) < 5 * math.sqrt(variance / COUNT)
    assert abs(x.var() / variance - 1) < 5 * math.sqrt((2 + 1 / variance) / COUNT)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 7.5, 1e4])
def test_gamma_is_distributed_as_on_the_cpu(alpha):
    torch.manual_seed(0)
    shapes = torch.full((COUNT,), alpha, dtype=torch.float64)
    assert distance(torch._standard_gamma(shapes.npu()), torch._standard_gamma(shapes)) < 2.3 * math.sqrt(2 / COUNT)


def test_samples_follow_from_the_seed():
    rates = torch.full((100,), 50.0).npu()
    torch.manual_seed(7)
    first = torch.poisson(rates)
    torch.manual_seed(7)
    assert torch.equal(first, torch.poisson(rates))


WEIGHTS = torch.tensor([0.1, 0.2, 0.0, 0.7])
DRAWS = {
    "bernoulli": lambda x: x.bernoulli_(0.3),
    "bernoulli of a tensor": lambda x: torch.bernoulli(torch.full_like(x, 0.3)),
    "binomial": lambda x: torch.binomial(torch.full_like(x, 9.0), torch.full_like(x, 0.3)),
    "cauchy": lambda x: x.cauchy_(-3.0, 2.0),
    "exponential": lambda x: x.exponential_(3.0),
    "gamma": lambda x: torch._standard_gamma(torch.full_like(x, 2.5)),
    "geometric": lambda x: x.geometric_(0.3),
    "integers": lambda x: x.random_(3, 17),
    "multinomial": lambda x: WEIGHTS.to(x.device).multinomial(x.numel(), replacement=True),
    "multinomial without replacement": lambda x: torch.full((x.numel(),), 0.5, device=x.device).multinomial(x.numel()),
    "normal": lambda x: x.normal_(2.0, 3.0),
    "normal around numbers": lambda x: torch.normal(torch.full_like(x, 2.0), 3.0),
    "normal of deviations": lambda x: torch.normal(2.0, torch.full_like(x, 3.0)),
    "normal of both": lambda x: torch.normal(torch.full_like(x, 2.0), torch.full_like(x, 3.0)),
    "permutation": lambda x: torch.randperm(x.numel(), device=x.device),
    "poisson": lambda x: torch.poisson(torch.full_like(x, 2.5)),
    "rrelu": lambda x: torch.rrelu(torch.full_like(x, -1.0), 0.1, 0.6, training=True),
    "rrelu in place": lambda x: torch.rrelu_(torch.full_like(x, -1.0), 0.1, 0.6, training=True),
    "uniform": lambda x: x.uniform_(-1.0, 4.0),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_draws_are_distributed_as_on_the_cpu(draw):
    torch.manual_seed(0)
    assert distance(draw(torch.empty(COUNT, device="npu")), draw(torch.empty(COUNT))) < 2.3 * math.sqrt(2 / COUNT)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_draws_depend_on_the_seed_and_on_those_before(draw):
    def drawn(seed):
        torch.manual_seed(seed)
        return [draw(torch.empty(100, device="npu")).cpu() for _ in range(2)]

    first, second = drawn(1)
    assert torch.equal(first, drawn(1)[0]) and not torch.equal(first, second)
    assert not torch.equal(first, drawn(2)[0])
