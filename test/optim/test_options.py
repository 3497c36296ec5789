"""Every constructor option of every optimiser does what the rule says, in one kernel and composed of other operators."""

import inspect

import pytest
import torch
from rules import CASES, NAMES, RULES, of_torch

from torch_npu import optim
from torch_npu.optim.base import Bucket

SHAPES = [(4, 3), (5,), (2, 3, 2), (), (6, 40), (1, 7), (300,), (0, 3)]
STEPS = 6


def inputs() -> tuple[list[torch.Tensor], list[list[torch.Tensor]]]:
    """Parameters, and gradients that become smaller, so that the largest average is not the last one."""
    generator = torch.Generator().manual_seed(3)
    draw = [[torch.randn(shape, generator=generator, dtype=torch.float64) for shape in SHAPES] for _ in range(STEPS + 1)]
    params = [p.float().double() for p in draw[0]]
    return params, [[(g * 2.0 ** -step).float().double() for g in grads] for step, grads in enumerate(draw[1:])]


def run(cls, dtype=torch.float32, **options) -> list[torch.Tensor]:
    initial, grads = inputs()
    params = [torch.nn.Parameter(p.to(dtype).npu()) for p in initial]
    rates = options.pop("lr")
    optimizer = cls(params, lr=rates[0] if isinstance(rates, list) else rates, **options)
    for step in range(STEPS):
        if isinstance(rates, list):
            optimizer.param_groups[0]["lr"] = rates[step]
        for p, g in zip(params, grads[step]):
            p.grad = g.to(dtype).npu()
        optimizer.step()
    return [p.detach().cpu().double() for p in params]


def differ(left: list[torch.Tensor], right: list[torch.Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(left, right) if a.numel())


@pytest.fixture(params=["one kernel", "composed"])
def form(request, monkeypatch):
    if request.param == "composed":
        monkeypatch.setattr(Bucket, "is_fused", lambda self, operator: False)
    return request.param


@pytest.mark.parametrize("cls, option", CASES, ids=NAMES)
def test_an_option_changes_the_step_as_the_rule_says(cls, option, form):
    rule, base, cases = RULES[cls]
    options = {**base, **cases[option]}
    expected = rule(*inputs(), **options)
    without = {name: value for name, value in options.items() if name != option.split()[0]}
    assert differ(expected, rule(*inputs(), **{"lr": base["lr"], **without})) > 1e-3, "the case does not show the option"
    torch.testing.assert_close(run(cls, **options), expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("cls", RULES, ids=lambda cls: cls.__name__)
def test_every_option_has_a_case(cls):
    options = set(inspect.signature(cls).parameters) - {"params"}
    assert options == {option.split()[0] for option in RULES[cls][2]}


@pytest.mark.parametrize("cls", RULES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-7), (torch.float16, 0.02), (torch.bfloat16, 0.1)])
def test_other_types(cls, dtype, tolerance):
    """Half types round the state at each step; with a large epsilon that does not decide the result."""
    rule, base, cases = RULES[cls]
    options = {**base, **cases.get("eps", cases.get("e", {}))}
    torch.testing.assert_close(run(cls, dtype, **options), rule(*inputs(), **options), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("zero", ["parameter", "gradient"])
def test_lamb_moves_zero_parameters_and_leaves_those_without_a_gradient(zero, form):
    """The ratio of norms, zero or infinite there, is one."""
    param, grad = (torch.zeros(4) if zero == what else torch.tensor([1.0, -2.0, 3.0, -4.0]) for what in ("parameter", "gradient"))
    param = torch.nn.Parameter(param.npu())
    optimizer = optim.NpuFusedLamb([param], lr=0.1)
    param.grad = grad.npu()
    optimizer.step()
    rule = RULES[optim.NpuFusedLamb][0]
    expected = rule([torch.zeros(4).double()], [[grad.double()]], lr=0.1)[0] if zero == "parameter" else [1, -2, 3, -4]
    torch.testing.assert_close(param.detach().cpu().double(), torch.as_tensor(expected, dtype=torch.float64), rtol=1e-5, atol=1e-6)
    assert param.cpu().abs().min() > 0.05


@pytest.mark.parametrize("options", [{}, {"momentum": 0.8, "dampening": 0.3, "weight_decay": 0.1}, {"momentum": 0.8, "nesterov": True},
                                     {"maximize": True}], ids=str)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float16, 0.01), (torch.bfloat16, 0.05)])
def test_fused_sgd_of_half_types(options, dtype, tolerance):
    """The CPU's own fused kernel is wrong for them."""
    actual = run(lambda params, **given: torch.optim.SGD(params, fused=True, **given), dtype, lr=0.1, **options)
    torch.testing.assert_close(actual, of_torch(torch.optim.SGD)(*inputs(), lr=0.1, **options), rtol=tolerance, atol=tolerance)


def test_fused_sgd_of_half_types_unscales_and_skips():
    params = [torch.nn.Parameter(torch.full((2, 3, 4, 5), 1.0, dtype=torch.float16, device="npu").to(memory_format=torch.channels_last))]
    optimizer = torch.optim.SGD(params, lr=0.5, fused=True)
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(4.0, device="npu"), torch.tensor(0.0, device="npu")
    params[0].grad = torch.full_like(params[0], 2.0)
    optimizer.step()
    assert params[0].eq(0.75).all() and params[0].grad.eq(0.5).all()
    optimizer.found_inf = torch.tensor(1.0, device="npu")
    optimizer.step()
    assert params[0].eq(0.75).all()


@pytest.mark.parametrize("cls", [cls for cls in RULES if hasattr(torch.optim, cls.__name__.removeprefix("NpuFused"))],
                         ids=lambda cls: cls.__name__)
def test_defaults_are_those_of_torch(cls):
    original = inspect.signature(getattr(torch.optim, cls.__name__.removeprefix("NpuFused"))).parameters
    for name, parameter in inspect.signature(cls).parameters.items():
        if name in original and parameter.default is not inspect.Parameter.empty:
            assert parameter.default == original[name].default or {name, parameter.default} == {"lr", None}, name


@pytest.mark.parametrize("cls", [cls for cls in RULES if not hasattr(torch.optim, cls.__name__.removeprefix("NpuFused"))],
                         ids=lambda cls: cls.__name__)
def test_defaults_are_those_of_the_rule(cls):
    def defaults(function):
        return {name: p.default for name, p in inspect.signature(function).parameters.items() if p.default is not p.empty}

    assert defaults(cls) == defaults(RULES[cls][0])


@pytest.mark.parametrize("cls", RULES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("option, value", [("lr", -1.0), ("eps", -1.0), ("e", -1.0), ("weight_decay", -1.0), ("betas", (1.5, 0.9)),
                                           ("betas", (0.9, -0.1)), ("betas", (1.0, 0.9)), ("betas", (0.9, 1.0)), ("b1", -0.1), ("b1", 1.0),
                                           ("b2", -0.1), ("b2", 1.0), ("warmup", 1.0), ("warmup", -0.5), ("alpha", -1.0),
                                           ("momentum", -1.0), ("rho", 2.0), ("rho", -0.1)])
def test_numbers_that_make_no_sense_are_refused_by_name(cls, option, value):
    if option not in inspect.signature(cls).parameters:
        pytest.skip("has no such option")
    with pytest.raises(ValueError, match="beta" if option == "betas" else option if option != "lr" else "lr|learning rate"):
        cls([torch.nn.Parameter(torch.ones(2, device="npu"))], **{"lr": 0.1, option: value})


@pytest.mark.parametrize("cls", RULES, ids=lambda cls: cls.__name__)
def test_numbers_at_the_border_are_accepted(cls):
    """As in torch.optim: a learning rate of zero, say, keeps parameters as they are."""
    border = {"lr": 0.0, "eps": 0.0, "e": 0.0, "weight_decay": 0.0, "betas": (0.0, 0.0), "b1": 0.0, "b2": 0.0, "warmup": 0.0, "alpha": 0.0,
              "momentum": 0.0, "rho": 0.0}
    given = {name: value for name, value in border.items() if name in inspect.signature(cls).parameters}
    param = torch.nn.Parameter(torch.ones(2, device="npu"))
    assert given.items() <= cls([param], **given).param_groups[0].items()
    if "rho" in given:
        cls([param], rho=1.0)
    param.grad = torch.ones_like(param)
    cls([param], lr=0.0).step()
    assert param.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9, "dampening": 0.1}], ids=str)
def test_nesterov_needs_momentum_without_dampening(options):
    for cls in (optim.NpuFusedSGD, torch.optim.SGD):
        with pytest.raises(ValueError, match="Nesterov momentum requires a momentum and zero dampening"):
            cls([torch.nn.Parameter(torch.ones(2, device="npu"))], lr=0.1, nesterov=True, **options)


def test_the_list_of_optimisers_is_complete():
    assert {cls.__name__ for cls in RULES} == set(optim.__all__) - {"NpuFusedOptimizerBase"}
