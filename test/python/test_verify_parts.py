"""The checks of python -m torch_npu.verify by themselves, without processes: verdicts at their bounds, samples, and what they say of
something broken. test_verify_run.py has reports and processes, test_verify.py runs the whole.
"""

import math
from types import SimpleNamespace

import pytest
import torch

from torch_npu.verify import (
    check_operator,
    outcome,
    randomness,
    samples,
    timing,
    training,
    values,
)

F32, F16, BF16, F64 = torch.float32, torch.float16, torch.bfloat16, torch.float64


# ---- Values ----


def off_by(distance, dtype=F64, computed=F32, loose=1.0, scale=1.0):
    """The verdict on one element of four that is `distance` off; sizes are `scale`, and so is their mean."""
    expected = torch.full((4,), scale, dtype=dtype)
    actual = expected.clone()
    actual[2] += distance
    return values.measure(actual, expected, computed, loose)


@pytest.mark.parametrize("computed, rtol, atol, wide", [(F32, 1.3e-6, 1e-5, 2e-3), (F16, 1e-3, 1e-5, 1e-2), (BF16, 1.6e-2, 1e-5, 5e-2),
                                                        (F64, 1e-7, 1e-7, 1e-3)])
@pytest.mark.parametrize("loose, scale", [(1.0, 1.0), (4.0, 1.0), (1.0, 10.0)])
def test_bounds_are_torchs_and_the_wider_ones(computed, rtol, atol, wide, loose, scale):
    close, near = loose * (atol + rtol * 2 * scale), loose * (wide + wide * 2 * scale)
    for distance, verdict in ((0.98 * close, "close"), (1.02 * close, "near"), (0.98 * near, "near"), (1.02 * near, "wrong")):
        assert off_by(distance, F64, computed, loose, scale).verdict == verdict, distance
        assert off_by(-distance, F64, computed, loose, scale).verdict == verdict, distance


def test_the_coarser_of_two_types_counts():
    assert off_by(1e-2, F32, F16).verdict == off_by(1e-2, F16, F32).verdict == "near"
    assert off_by(1e-2, F32, F32).verdict == "wrong"


def test_the_worst_element_is_described():
    expected = torch.tensor([[1.0, -3.0], [4.0, 0.0]])
    found = values.measure(torch.tensor([[1.0, -3.0], [6.0, 1.0]]), expected, F32)
    assert found.verdict == "wrong" and found.max_abs == 2.0 and found.wrong == 2
    assert found.max_rel == pytest.approx(max(2 / (4 + 2), 1 / (0 + 2))) and found.first == "at [1, 0] 6, the CPU has 4"
    infinite = values.measure(torch.tensor([math.inf, 2.0]), torch.tensor([1.0, 2.0]), F32)
    assert (infinite.verdict, infinite.max_abs, infinite.wrong) == ("wrong", math.inf, 1)
    empty = torch.tensor([math.nan, 0.0]), torch.tensor([0.0, 0.0])
    assert values.measure(*empty, F32).max_rel == math.inf and values.measure(*reversed(empty), F32).verdict == "wrong"


def test_types_without_tolerances():
    assert values.measure(torch.tensor([True, False]), torch.tensor([True, True]), torch.bool).verdict == "wrong"
    numbers = torch.tensor([1 + 2j, 3 + 4j])
    assert values.measure(numbers, numbers, torch.complex64).verdict == "close"
    assert values.measure(numbers + 1j, numbers, torch.complex64).first == "at [0, 1] 3, the CPU has 2"
    assert values.measure(torch.zeros(0), torch.zeros(0), F32) == values.Difference()
    small = torch.tensor([5, 5, 5], dtype=torch.int8)
    assert values.measure(small, small, torch.int8).verdict == "close"
    assert values.measure(small + torch.tensor([0, -1, 0], dtype=torch.int8), small, torch.int8).verdict == "near"
    assert values.measure(small + torch.tensor([0, 2, 0], dtype=torch.int8), small, torch.int8).wrong == 1


def test_the_worst_of_several():
    close, near, wrong = (values.Difference(verdict, max_rel=size) for verdict, size in (("close", 9.0), ("near", 0.5), ("wrong", 0.1)))
    assert values.worst([close, near]) is near and values.worst([wrong, near, close]) is wrong
    assert values.worst([close, larger := values.Difference(max_rel=10.0)]) is larger and values.worst([]) == values.Difference()
    assert close.verdict == values.Difference().verdict == "close" and values.Difference().wrong == 0 == values.Difference().max_abs
    assert values.Difference().max_rel == 0.0


def test_descriptions_name_what_is_unusual():
    assert values.describe(3) == "3" and values.describe(torch.zeros(2, 3)) == "float32[2, 3]"
    assert values.describe(torch.zeros(2, 3).t()) == "float32[3, 2] strides [1, 3]"
    assert values.describe(torch.zeros(2, 3).to_sparse()) == "float32[2, 3]"
    for shape in ((3,), (2, 3), (2, 3, 4), (2, 3, 4, 5), (2, 3, 4, 5, 6)):
        assert values.describe(torch.zeros(shape).npu()) == f"float32{list(shape)}"
    assert values.describe(torch.ops.npu.npu_format_cast(torch.zeros(16, 16).half().npu(), 29)).endswith("[16, 16] format 29")


# ---- Samples ----


@pytest.mark.parametrize("given, dtype, low, high, made", [
    (samples.f(500), F32, -2, 2, F32), (samples.f(500, low=0.5, high=1.5), F16, 0.5, 1.5, F16),
    (samples.f(500), torch.int64, -9, 9, torch.int64),
    (samples.f(500, low=1, high=4), torch.int32, 1, 4, torch.int32), (samples.index(500, high=7), F32, 0, 6, torch.int64),
    (samples.index(500, high=7, low=3), F32, 3, 6, torch.int64), (samples.int8(900), F32, -100, 99, torch.int8),
    (samples.float32(500), F16, -2, 2, F32), (samples.float32(500, low=1, high=9), F16, 1, 9, F32),
    (samples.mask(500), F32, 0, 1, torch.bool),
])
def test_ranges_of_samples(given, dtype, low, high, made):
    numbers = given.make(dtype, 1)
    assert numbers.dtype == made and list(numbers.shape) == [given.shape[0]]
    assert torch.equal(numbers, given.make(dtype, 1)) and not torch.equal(numbers, given.make(dtype, 2))
    found, span = numbers.double(), high - low
    assert low <= found.min() <= low + 0.02 * span and high - 0.02 * span <= found.max() <= high
    if made == torch.bool:
        assert 0.4 < found.mean() < 0.6


def test_orders_and_ranges_of_one_number():
    assert samples.order(4, 9).make(F32, 3).sort(-1).values.tolist() == [list(range(9))] * 4
    assert samples.f(5, low=3, high=1).make(torch.int64, 1).tolist() == [3] * 5


def test_operators_take_the_types_and_gradients_of_floats():
    first, second = samples.each("exp log", torch, samples.f(2), prefix="x.", loose=3.0)
    assert (first.name, first.function, second.name, second.function) == ("x.exp", torch.exp, "x.log", torch.log)
    assert first.types == (F32, F16, BF16) and first.gradient is True and first.loose == 3.0 and first.inputs == (samples.f(2),)
    assert samples.Operator("a", torch.exp).loose == 1.0 and samples.each("exp", torch)[0].name == "exp"


# ---- One operator ----


def operator(function=torch.mul, types=samples.FLOATS, **options):
    return samples.Operator("x", function, (samples.f(3, 4), samples.f(3, 4)), types, **options)


def test_variants_of_an_operator():
    def found(types, quick=False, **options):
        made = check_operator.variants(operator(types=types, **options), quick)
        return [(str(dtype).removeprefix("torch."), form) for dtype, form in made]

    assert found(samples.FLOATS) == [("float32", "forward"), ("float16", "forward"), ("bfloat16", "forward"), ("float32", "strided"),
                                     ("float32", "gradient"), ("bfloat16", "gradient")]
    assert found(samples.FLOATS, True) == [("float32", "forward"), ("float16", "forward"), ("float32", "strided"), ("float32", "gradient")]
    assert found(samples.INTEGERS) == [("int64", "forward"), ("int32", "forward"), ("int64", "strided")]
    assert found(samples.INTEGERS, True) == [("int64", "forward"), ("int64", "strided")]
    assert found((BF16,), True, gradient=False) == [("bfloat16", "forward"), ("bfloat16", "strided")]
    assert found((F16,), gradient=True)[-1] == ("float16", "gradient")


def test_where_tensors_are_placed():
    x = torch.arange(6.0).view(2, 3)
    for strided, gradient in ((False, False), (True, False), (True, True)):
        placed = check_operator.place(x, "npu", strided, gradient)
        assert placed.is_npu and placed.requires_grad is gradient and torch.equal(placed.detach().cpu(), x)
        assert placed.is_contiguous() is not strided
    assert check_operator.place(x, "cpu", False, False).data_ptr() != x.data_ptr()
    assert check_operator.place(x.long(), "npu", False, True).requires_grad is False
    gaps = check_operator.with_gaps(torch.ones(2, 3))
    assert gaps.stride() == (2, 8) and gaps.untyped_storage().nbytes() == 4 * 24
    assert check_operator.with_gaps(torch.tensor(1.0)).dim() == 0


def test_results_are_tensors_or_gradients():
    x, y = torch.tensor([2.0, 3.0], requires_grad=True), torch.tensor([5.0, 7.0])
    assert [t.tolist() for t in check_operator.results(lambda a, b: (a * b, 3, [a + b]), [x, y], False)] == [[10.0, 21.0], [7.0, 10.0]]
    (gradient,) = check_operator.results(torch.mul, [x, y], True)
    seeds = torch.rand(2, generator=torch.Generator().manual_seed(7)) + 0.5
    assert torch.allclose(gradient, seeds * y)
    unused = check_operator.results(lambda a, b: b * 2, [x, y.requires_grad_()], True)
    assert [t.numel() for t in unused] == [0, 2]


def test_the_nearest_reference_counts():
    one, two = torch.ones(3), torch.full((3,), 2.0)
    assert check_operator.compare([one], [[two], [one]], F32, 1.0).verdict == "close"
    assert check_operator.compare([one], [[two]], F32, 1.0).verdict == "wrong"
    assert check_operator.compare([one, one], [[one]], F32, 1.0).text == "2 results where the CPU has 1"
    assert check_operator.compare([one + 1e-2], [[one]], F32, 10.0).verdict == "near"


def test_half_types_have_two_references():
    def double(a, b):
        seen.append(a.dtype)
        return a + b

    seen = []
    inputs = [torch.ones(2).half(), torch.ones(2).half()]
    found = check_operator.expected(operator(double), inputs, False, F16)
    assert seen == [F16, F32] and [[t.dtype for t in tensors] for tensors in found] == [[F16], [F16]]
    seen.clear()
    assert len(check_operator.expected(operator(double), [t.float() for t in inputs], False, F32)) == 1 and seen == [F32]
    assert check_operator.expected(operator(double, reference=torch.sub), inputs, False, F16)[0][0].tolist() == [0.0, 0.0]

    def refuse(a, b):
        if a.dtype != F32:
            raise RuntimeError("no kernel")
        return a + b, (a > 0)

    found = check_operator.expected(operator(refuse), inputs, False, F16)
    assert [[t.dtype for t in tensors] for tensors in found] == [[F16, torch.bool]]
    with pytest.raises(RuntimeError, match="no kernel"):
        check_operator.expected(operator(refuse), [t.double() for t in inputs], False, F64)


def run_check(function, *arguments):
    """What a check says, and what it announces."""
    news = []
    made = outcome.Outcome(news.append)
    function(*arguments, made)
    return made, news


def test_each_form_is_what_it_is_called():
    """On the card: rows with gaps in the strided form alone, inputs that are differentiated in that of gradients; other numbers each."""
    seen = []

    def function(a, b):
        if a.is_npu:
            seen.append((str(a.dtype).removeprefix("torch."), a.is_contiguous() and b.is_contiguous(), a.requires_grad and b.requires_grad))
            assert not torch.equal(a, b)
        return a * b

    run_check(check_operator.run, operator(function), False)
    assert seen == [("float32", True, False), ("float16", True, False), ("bfloat16", True, False), ("float32", False, False),
                    ("float32", True, True), ("bfloat16", True, True)]


def test_an_operator_is_run_in_each_form():
    made, news = run_check(check_operator.run, operator(), False)
    assert made.status == "ok" and made.attempts == 6 and not made.problems
    assert news[0] == {"form": "float32 forward", "arguments": "float32[3, 4], float32[3, 4]"}
    assert news[3] == {"form": "float32 strided", "arguments": "float32[3, 4] strides [2, 12], float32[3, 4] strides [2, 12]"}
    broken, _ = run_check(check_operator.run, operator(lambda a, b: a * b + (0.5 if a.is_npu else 0)), True)
    assert broken.status == "wrong" and [p["form"] for p in broken.problems] == ["float32 forward", "float16 forward", "float32 strided"]
    # Only gradients: forward agrees, and they have four times the tolerance.
    for factor, status in ((1.01, "near"), (1.035, "wrong")):
        wrong, _ = run_check(check_operator.run, operator(lambda a, b: torch.mul(a, b) if not a.is_npu or not a.requires_grad else
                                                          factor * a * b - (factor - 1) * (a * b).detach(), types=(F32,)), False)  # noqa: B023
        assert [p["form"] for p in wrong.problems] == ["float32 gradient"] and wrong.status == status
    refused, _ = run_check(check_operator.run, operator(lambda a, b: 1 / 0 if a.is_npu else a, types=(F32,), gradient=False), False)
    assert refused.status == "refused" and refused.problems[0]["text"] == "ZeroDivisionError: division by zero"


# ---- Outcomes ----


def test_an_outcome_has_the_worst_status():
    made, news = run_check(lambda o: None)
    assert made.as_dict({}) == {"status": "ok", "seconds": 0.0, "attempts": 0, "max_rel": 0.0}
    made.compared(values.Difference(max_rel=0.25))
    made.compared(values.Difference(max_rel=0.125))
    assert made.as_dict({})["max_rel"] == 0.25 and made.status == "ok"
    with made.attempt("a form", "of something"):
        made.compared(values.Difference("near", 0.5, 0.75))
        made.compared(values.Difference("wrong", 1.0, 2.0, 3, "at [0] 1, the CPU has 2"))
        made.compared(values.Difference("wrong", text="another type"))
        made.raise_to("skipped")
    found = made.as_dict({"aten::x": 2})
    assert news == [{"form": "a form", "arguments": "of something"}] and found["attempts"] == 1
    assert found["status"] == "wrong" and found["fallbacks"] == {"aten::x": 2} and "note" not in found and "numbers" not in found
    assert [p["text"] for p in found["problems"]] == ["within the wider tolerance", "3 elements are off, the first at [0] 1, the CPU has 2",
                                                     "another type"]
    assert found["problems"][0] == {"status": "near", "form": "a form", "arguments": "of something", "text": "within the wider tolerance",
                                    "max_abs": 0.5, "max_rel": 0.75}
    made.problem("hang", "x " * 1000)
    assert len(made.problems[-1]["text"]) == 600 and made.status == "hang"
    fallen, _ = run_check(lambda o: None)
    assert fallen.as_dict({"aten::x": 1})["status"] == "fallback"


def test_seconds_add_up(monkeypatch):
    clock = iter([1.0, 3.0, 10.0, 10.5])
    monkeypatch.setattr(outcome, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    made, _ = run_check(lambda o: None)
    for _ in range(2):
        with made.attempt("x"):
            pass
    assert made.seconds == 2.5 and made.attempts == 2


def test_a_card_that_computes_something_else_is_not_healthy(monkeypatch):
    assert outcome.is_healthy() is True
    monkeypatch.setattr(outcome.torch, "ones", lambda n: torch.full((n,), 2.0))
    assert outcome.is_healthy() is False
    monkeypatch.setattr(outcome.torch, "ones", lambda n: (_ for _ in ()).throw(RuntimeError))
    assert outcome.is_healthy() is False


# ---- Random numbers, timings, training ----


def test_every_draw_is_right():
    for name in randomness.DRAWS:
        made, news = run_check(randomness.run, name)
        assert made.status == "ok", (name, made.problems)
        assert news == [{"form": "float32", "arguments": "65536 numbers"}]


def draws(function, mean=0.5, deviation=12**-0.5):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(randomness.DRAWS, "x", (function, mean, deviation))
        return [p["text"].partition(" where")[0].partition(" 0")[0] for p in run_check(randomness.run, "x")[0].problems]


def test_draws_that_are_wrong():
    def rand():
        return torch.rand(randomness.COUNT, device="npu")

    fixed = torch.rand(randomness.COUNT)
    bound = 6 * 12**-0.5 / 256
    assert draws(lambda: rand() * 0 + torch.rand(randomness.COUNT).npu()) == ["two runs with the same seed differ"]
    assert draws(lambda: fixed.npu()) == ["two runs with different seeds are equal"]
    centred = fixed - fixed.mean()
    for shift, wrong in ((0.97, False), (1.03, True), (-0.97, False), (-1.03, True)):
        moved = centred + 0.5 + shift * bound
        found = draws(lambda: moved.npu() + 1e-9 * rand())  # noqa: B023
        assert any(text.startswith("mean") for text in found) is wrong, shift
    for factor, wrong in ((1.045, False), (1.055, True), (0.955, False), (0.945, True)):
        scaled = centred / centred.std() * 12**-0.5 * factor + 0.5
        found = draws(lambda: scaled.npu() + 1e-9 * rand())  # noqa: B023
        assert any(text.startswith("mean") for text in found) is wrong, factor


def test_timings_are_medians_of_a_call(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(timing, "time", SimpleNamespace(monotonic=lambda: now[0], perf_counter=lambda: now[0]))
    calls = []

    def function():
        calls.append(1)
        now[0] += 0.001 if len(calls) != 2 else 0.05

    assert timing.microseconds(function, True) == 1000.0 and len(calls) == 1 + 5 * 15
    calls.clear()
    assert timing.microseconds(function, False) == 1000.0 and len(calls) == 1 + 20 * 15

    def slow():
        calls.append(1)
        now[0] += 0.15

    calls.clear()
    assert timing.microseconds(slow, True) == 150000.0 and len(calls) == 3
    calls.clear()
    assert timing.microseconds(slow, False) == 150000.0 and len(calls) == 8


def test_every_program_is_timed(monkeypatch):
    monkeypatch.setattr(timing, "microseconds", lambda program, quick: (program(), 5.0 + quick)[1])
    for quick, number in ((True, 6.0), (False, 5.0)):
        made, _ = run_check(timing.run, quick)
        assert len(made.numbers) == made.attempts == 6 and set(made.numbers.values()) == {number} and not made.problems


def test_training_programs():
    made, news = run_check(training.run, "mlp.float16")
    assert made.status == "ok" and news == [{"form": "3 steps", "arguments": "mlp, autocast float16"}], made.problems
    assert run_check(training.run, "mlp")[1] == [{"form": "3 steps", "arguments": "mlp, float32"}]
    kinds = {name: (network, autocast) for name, (network, autocast, _) in training.PROGRAMS.items()}
    assert all(name.partition(".")[0] == network and (autocast is None or name.endswith(str(autocast).removeprefix("torch.")))
               for name, (network, autocast) in kinds.items())


def test_training_that_goes_wrong(monkeypatch):
    real = training.F.cross_entropy
    for error, status in ((0.0, "ok"), (0.01, "near"), (0.5, "wrong")):
        def loss(x, target, error=error):
            return real(x, target) + (error if x.is_npu else 0.0)

        monkeypatch.setattr(training.F, "cross_entropy", loss)
        assert run_check(training.run, "mlp")[0].status == status, error
    monkeypatch.setattr(training.F, "cross_entropy", lambda x, target: real(x, target) * (-1 if x.is_npu else 1))
    assert run_check(training.run, "mlp")[0].status == "wrong"


def test_three_steps_and_their_losses():
    torch.manual_seed(0)
    net, x, target = torch.nn.Linear(4, 3), torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    start = [p.detach().clone() for p in net.parameters()]
    found = training.train(net, x, target, lambda p: torch.optim.SGD(p, 0.5), None)
    assert len(found) == training.STEPS + 2 and found[0] > found[1] > found[2]
    assert not torch.equal(found[3], start[0]) and torch.equal(found[3], net.weight)
