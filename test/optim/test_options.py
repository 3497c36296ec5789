"""Every constructor option of every optimiser does what the rule says, in one kernel and composed of other operators."""

import inspect

import pytest
import torch
from rules import CASES, NAMES, RULES

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
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-5), (torch.float16, 0.05), (torch.bfloat16, 0.2)])
def test_other_types(cls, dtype, tolerance):
    """Half types round the state at each step."""
    rule, base, _ = RULES[cls]
    torch.testing.assert_close(run(cls, dtype, **base), rule(*inputs(), **base), rtol=tolerance, atol=tolerance)


def test_the_list_of_optimisers_is_complete():
    assert {cls.__name__ for cls in RULES} == set(optim.__all__) - {"NpuFusedOptimizerBase"}
