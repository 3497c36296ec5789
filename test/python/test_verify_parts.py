"""The parts of python -m torch_npu.verify by themselves, without processes: verdicts at their bounds, samples, reports, what two differ in,
and checks that are given something broken. test_verify.py runs the whole.
"""

import json
import math
import os
import stat
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from torch_npu.verify import (
    __main__,
    check_operator,
    checks,
    collective,
    compare,
    conformance,
    machine,
    outcome,
    process,
    randomness,
    report,
    samples,
    supervisor,
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


# ---- Names ----


def test_patience_and_names():
    assert [checks.patience(name, 10.0) for name in ("op.add", "comm.two_ranks", "train.mlp", "time.calls")] == [10.0, 25.0, 20.0, 20.0]
    names = ["op.add", "op.addmm", "fused.add"]
    assert checks.matching(names, []) == names and checks.matching(names, ["op.add"]) == names[:2]
    assert checks.matching(names, ["*.add"]) == ["op.add", "fused.add"] and checks.matching(names, ["fused", "op.addm"]) == names[1:]
    with pytest.raises(ValueError, match="no check fits 'x'; families are abi, op, fused"):
        checks.matching(names, ["op", "x"])
    trained = {quick: [name for name in checks.functions(quick) if name.startswith("train.")] for quick in (True, False)}
    assert trained[True] == ["train.mlp", "train.gpt.bfloat16", "train.llama"] and len(trained[False]) == len(training.PROGRAMS)


# ---- Reports ----

MACHINE = {"provider": "softnpu", "CANN": "9.1", "SoC": "Ascend", "cards": "2 of 1.0 GiB", "torch_npu": "2.13"}
PROBLEM = {"status": "wrong", "form": "float32 forward", "arguments": "float32[2]", "text": "off", "max_abs": 0.5, "max_rel": 0.25}


def check(status="ok", **more):
    return {"status": status, "seconds": 1.0, "attempts": 2, **more}


def made(found, **more):
    return report.make(MACHINE, found, **({"quick": True, "date": "2026-01-02", "seconds": 65.4, "ended": ""} | more))


def test_the_text_of_a_report():
    found = {
        "op.add": check(numbers={"add": 250.0, "item": 12.5, "at": 100.0}),
        "op.near": check("near", problems=[{"max_rel": 0.001}, {"max_rel": 0.02}, {}]),
        "op.cpu": check("fallback", fallbacks={"aten::x": 3, "aten::y": 5}), "abi.a": check("skipped", note="no card", seconds=0.0),
        "op.bad": check("wrong", seconds=7.0, problems=[PROBLEM, PROBLEM | {"text": "t" * 300}, PROBLEM, PROBLEM]),
        "comm.hang": check("hang", problems=[{"status": "hang", "form": "", "arguments": "", "text": "no answer"}, {"status": "near"}]),
        "random.x": check("near", problems=[]),
    }
    lines = report.text(made(found)).splitlines()
    assert lines[:5] == ["torch_npu verification report", "=" * 29, "2 PROBLEMS in 6 checks: 1 hang, 1 wrong",
                         "softnpu 9.1, Ascend, 2 of 1.0 GiB; torch_npu 2.13", "2026-01-02, 65 s, quick form"]
    rows = {line[:24].strip(): line[24:].split() for line in lines[6:12]}
    assert lines[6].split() == ["checks", "ok", "near", "on", "CPU", "bad", "skipped", "calls", "seconds"]
    assert rows["operators"] == ["4", "1", "1", "1", "1", "0", "8", "10.0"]
    assert rows["collectives"] == ["1", "0", "0", "0", "1", "0", "2", "1.0"]
    assert rows["functions of the C ABI"] == ["1", "0", "0", "0", "0", "1", "2", "0.0"] and "training steps" not in rows
    begin = lines.index("Problems")
    assert lines[begin + 1: begin + 9] == [
        "  HANG     comm.hang: ", "           no answer", "  WRONG    op.bad: float32 forward float32[2]",
        "           off (largest error 0.5, relative 0.25)", "  WRONG    op.bad: float32 forward float32[2]",
        f"           {'t' * 220} (largest error 0.5, relative 0.25)", "           and 2 more forms of it", ""]
    assert "  aten::y (5), aten::x (3)" in lines and "  op.near (2.0e-02), random.x (0.0e+00)" in lines
    assert lines[lines.index("Not run") + 1] == "  1: no card (abi.a)" and "  add 250, item 12.5, at 100" in lines
    slowest = lines[lines.index("Slowest checks (s)") + 1]
    assert slowest.startswith("  op.bad 7.0, ") and slowest.count(",") == 4
    assert lines[lines.index("Machine") + 1] == f"  {'provider':20} softnpu"


def test_the_text_of_a_report_without_problems():
    skipped = {f"abi.{n}": check("skipped", note="why") for n in range(4)}
    text = report.text(made({"op.add": check(), **skipped}, quick=False, ended="early"))
    assert "NO PROBLEM in 1 checks (ended early: early)" in text and "quick" not in text
    assert "  4: why (abi.0, abi.1, abi.2, ...)" in text
    for title in ("Problems", "Computed on the CPU", "Off by more", "Microseconds"):
        assert title not in text
    assert "Not run" not in report.text(made({"op.add": check()}))


def test_long_lists_are_cut():
    many = {f"op.{n}": check("wrong", problems=[PROBLEM, PROBLEM]) for n in range(41)}
    text = report.text(made(many))
    assert text.count("WRONG") == 80 and "  and 1 more, see the data" in text and "more forms" not in text
    text = report.text(made(dict(list(many.items())[:40])))
    assert "see the data" not in text and "40 PROBLEMS in 40 checks: 40 wrong" in text
    near = {f"op.{n}": check("near", problems=[]) for n in range(41)}
    assert report.text(made(near)).count("(0.0e+00)") == 40


def test_a_report_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    given = made({"op.add": check(), "op.x": check("near", problems=[])})
    report.write(given, file := tmp_path / "a.txt")
    assert report.read(file) == given and [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert '\n"op.add": {' in file.read_text()
    with pytest.raises(report.ReportError, match="cannot be written to .*: No such file"):
        report.write(given, tmp_path / "none/a.txt")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(report.ReportError, match="exists and may not be overwritten"):
        report.require_writable(file)
    report.require_writable(tmp_path / "new.txt")
    monkeypatch.undo()
    report.require_writable(file)
    assert file.stat().st_mode & stat.S_IRUSR


def test_outcomes_of_two_reports():
    def lines(a, b):
        return compare.differences(made(a), made(b))

    bad = check("wrong", problems=[PROBLEM | {"status": "near", "text": "x"}, PROBLEM | {"text": "y" * 200}])
    found, differ = lines({"op.a": check(), "op.b": check("near")}, {"op.a": bad, "op.b": check("near")})
    assert differ and found == ["Outcomes", f"  op.a: ok | wrong (float32 forward float32[2]: {'y' * 160})", ""]
    assert lines({"op.a": bad}, {"op.a": check()})[0][1].startswith("  op.a: wrong | ok (float32 forward")
    assert lines({"op.a": check("crash")}, {"op.a": check()})[0][1] == "  op.a: crash | ok"
    found, differ = lines({"op.a": bad}, {"op.a": check("wrong", problems=[PROBLEM | {"form": "gradient"}])})
    assert differ and found[1] == "  op.a: wrong in float32 forward | in gradient"
    assert lines({"op.a": bad}, {"op.a": bad}) == ([], False)
    assert lines({"op.a": check("near", problems=[PROBLEM])}, {"op.a": check("near", problems=[])}) == ([], False)
    found, differ = lines({"op.a": check("fallback", fallbacks={"x": 1})}, {"op.a": check("fallback", fallbacks={"y": 1})})
    assert differ and found[1] == "  op.a: on the CPU ['x'] | ['y']"
    assert lines({"op.a": check("fallback", fallbacks={"x": 1})}, {"op.a": check("fallback", fallbacks={"x": 2})})[1] is False
    order = lines({"a": check("near"), "b": check(), "c": check("hang")}, {"a": check(), "b": check("wrong", problems=[]), "c": check()})[0]
    assert [line.split(":")[0].strip() for line in order[1:4]] == ["c", "b", "a"]


def test_checks_of_one_report_only_and_times():
    one, many = {"op.a": check()}, {f"op.{n:02}": check() for n in range(21)}
    found, differ = compare.differences(made(one), made(many))
    assert not differ and found[0] == "Only in the first: 1 checks" and found[1] == "  op.a" and found[3] == "Only in the second: 21 checks"
    assert found[4].endswith(", op.19, ...")
    assert compare.differences(made({}), made(dict(list(many.items())[:20])))[0][1].endswith(", op.19")

    def times(first, second):
        return compare.differences(made({"t": check(numbers={"add": first})}), made({"t": check(numbers={"add": second})}))[0][1:-1]

    assert times(2.0, 4.0) == [f"  {'add':28}            2 |            4   x2.00  <--"] and times(2.0, 3.9)[0].endswith("x1.95")
    assert times(4.0, 2.0)[0].endswith("x0.50  <--") and times(0.0, 2.0) == times(2.0, 0.0) == []
    assert compare.differences(made({"t": check(numbers={"x": 1.0})}), made({"t": check(numbers={"y": 1.0})}))[0] == []


# ---- The program of the ABI's tests ----


def program(tmp_path, monkeypatch, text):
    file = tmp_path / "program"
    file.write_text(f"#!{sys.executable}\nimport sys, os, time\n{text}")
    file.chmod(0o755)
    monkeypatch.setattr(conformance, "PROGRAM", file)
    return file


LISTING = 'print("Event.\\n  first\\n  second  # GetParam() = 1\\nHandle.  # TypeParam\\n  any\\nnot a suite\\nMore.\\n  last")'


def test_names_of_the_abis_tests(tmp_path, monkeypatch):
    program(tmp_path, monkeypatch, LISTING)
    assert conformance.names("/x", True) == ["abi.Event.first", "abi.Event.second", "abi.Handle.any", "abi.More.last"]
    assert conformance.names("/x", False) == ["abi.Event.first", "abi.Event.second", "abi.More.last"]
    monkeypatch.setattr(conformance, "PROGRAM", tmp_path / "absent")
    assert conformance.names("/x", True) == []
    monkeypatch.delenv("SOFTNPU_MEMORY", raising=False)
    assert conformance.environment("/x")["ASCEND_TEST_LIBRARY"] == "/x/libascendcl.so"
    assert conformance.environment("/x")["SOFTNPU_MEMORY"] == "1G"
    monkeypatch.setenv("SOFTNPU_MEMORY", "2G")
    assert conformance.environment("/x")["SOFTNPU_MEMORY"] == "2G"


RUN = """
names = [a for a in sys.argv if a.startswith("--gtest_filter=")][0].partition("=")[2].split(":")
for name in names:
    print(f"[ RUN      ] {name}", flush=True)
    if name == "A.crash": print("ouch", flush=True); os.abort()
    if name == "A.hang": time.sleep(30)
    if name == "A.wrong": print("x.cpp:3: Failure\\n  expected   1"); print("[  FAILED  ] A.other (0 ms)")
    if name == "A.skip": print("no card")
    word = {"A.wrong": "[  FAILED  ]", "A.skip": "[  SKIPPED ]"}.get(name, "[       OK ]")
    print(f"{word} {name} (1 ms)", flush=True)
print("[==========] done")
"""


def test_tests_of_the_abi_that_fail_crash_or_hang(tmp_path, monkeypatch):
    program(tmp_path, monkeypatch, RUN)
    found = {}
    conformance.run([f"abi.A.{n}" for n in ("good", "crash", "wrong", "hang", "skip", "last")], "/x", 1.0, found.__setitem__)
    assert {name.removeprefix("abi.A."): check["status"] for name, check in found.items()} == {
        "good": "ok", "crash": "crash", "wrong": "wrong", "hang": "hang", "skip": "skipped", "last": "ok"}
    texts = {name.removeprefix("abi.A."): check["problems"][0]["text"] for name, check in found.items() if "problems" in check}
    assert texts == {"crash": "signal SIGABRT: ouch", "wrong": "x.cpp:3: Failure expected 1", "hang": "no answer in 1 s"}
    assert found["abi.A.skip"]["note"] == "no card" and found["abi.A.skip"]["attempts"] == 0
    assert {found[f"abi.A.{n}"]["attempts"] for n in ("good", "crash", "wrong", "hang")} == {1}
    assert 0.9 <= found["abi.A.hang"]["seconds"] < 10 and found["abi.A.hang"]["problems"][0]["form"] == ""


def test_a_program_that_runs_no_test(tmp_path, monkeypatch):
    program(tmp_path, monkeypatch, "print('no library'); sys.exit(3)")
    found = {}
    conformance.run(["abi.A.x", "abi.A.y"], "/x", 5.0, found.__setitem__)
    assert [check["status"] for check in found.values()] == ["failed"] * 2
    assert found["abi.A.y"]["problems"][0]["text"] == "exit code 3: no library" and found["abi.A.y"]["seconds"] == 0.0
    symbol = '(test::symbol<decltype(aclInit)>("aclInit")) != 0'
    assert conformance.outcome("FAILED", [symbol], 1.23456)["problems"][0]["text"] == "aclInit != 0"
    assert conformance.outcome("OK", ["x"], 1.23456) == {"status": "ok", "seconds": 1.2346, "attempts": 1}
    assert len(conformance.outcome("FAILED", ["y" * 999], 0)["problems"][0]["text"]) == 600
    assert len(conformance.outcome("SKIPPED", ["y" * 999], 0)["note"]) == 200


# ---- Processes ----


def worker(text, **options):
    return process.Worker([sys.executable, "-c", f"import sys, json, os, time\nprint('{{}}', flush=True)\n{text}"], dict(os.environ))


def test_a_worker_answers_and_tells_news():
    made = worker("for line in sys.stdin:\n print('{\"at\": {\"form\": 1}}'); print(line, end='', flush=True)")
    news = []
    assert made.ask({"a": 1}, 20, news.append) == {"a": 1} and news == [{"form": 1}]
    assert made.ask({"b": 2}, 20) == {"b": 2}
    made.stop()
    assert made.process.returncode == -9


def test_a_worker_that_ends():
    made = worker("sys.stdin.readline(); print('x' * 400 + 'last words', file=sys.stderr); os._exit(5)")
    with pytest.raises(ChildProcessError, match=r"^exit code 5: x{289}last words") as error:
        made.ask({}, 20)
    assert len(str(error.value)) == len("exit code 5: ") + 300
    made.stop()
    with pytest.raises(ChildProcessError, match="exit code 3: "):
        process.Worker([sys.executable, "-c", "raise SystemExit(3)"], dict(os.environ))
    assert [process.ending(code) for code in (0, 1, -11, -250)] == ["exit code 0", "exit code 1", "signal SIGSEGV", "signal 250"]


class FakeWorker:
    made, answers = [], []

    def __init__(self, command, environment):
        self.stopped = False
        self.made.append(self)

    def ask(self, request, seconds, news=None):
        self.request = (request["check"], seconds)
        if news:
            news({"form": "f", "arguments": "g"})
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self):
        self.stopped = True


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(supervisor, "Worker", FakeWorker)
    FakeWorker.made = []
    return FakeWorker


def test_a_worker_is_replaced_after_a_crash_a_hang_or_an_ill_card(fake):
    found = {}
    boss = supervisor.Supervisor(True, 10.0, found.__setitem__)
    assert boss.command[-1] == "--quick" and "--quick" not in supervisor.Supervisor(False, 1.0, print).command
    assert boss.environment["TORCH_NPU_FALLBACK_CPU_DISABLE"] == "0"
    fake.answers = [{"status": "ok", "healthy": True}, {"status": "ok", "healthy": False}, TimeoutError("no answer\nin 1 s"),
                    ChildProcessError("signal SIGSEGV"), {"status": "near", "healthy": True}]
    boss.run(["op.a", "op.b", "comm.c", "op.d", "op.e"], math.inf)
    assert [check["status"] for check in found.values()] == ["ok", "ok", "hang", "crash", "near"] and len(fake.made) == 4
    assert found["comm.c"]["problems"] == [{"status": "hang", "form": "f", "arguments": "g", "text": "no answer in 1 s"}]
    assert found["op.a"] == {"status": "ok"} and found["op.d"]["attempts"] == 1 and found["op.d"]["seconds"] < 1
    assert fake.made[1].request == ("comm.c", 25.0) and all(w.stopped for w in fake.made) and boss.worker is None


def test_what_is_left_when_the_time_is_up_is_skipped(fake):
    found = {}
    supervisor.Supervisor(True, 1.0, found.__setitem__).run(["op.a"], -1.0)
    assert found == {"op.a": {"status": "skipped", "seconds": 0.0, "attempts": 0, "note": "not run: the time for all checks was up"}}
    assert not fake.made


# ---- Collectives, the machine and the command line ----


def test_ranks_that_differ_fail_or_do_not_answer(monkeypatch):
    class Rank:
        def __init__(self, answer, code=0):
            self.answer, self.returncode, self.killed = answer, code, False

        def communicate(self, timeout):
            if self.answer is None:
                raise subprocess.TimeoutExpired("x", timeout)
            return f"noise\n{json.dumps(self.answer)}\n", "e" * 600 + "end "

        def kill(self):
            self.killed = True

        def wait(self):
            assert self.killed

    def run(*ranks, cards=2):
        waiting = list(ranks)
        monkeypatch.setattr(collective.npu, "device_count", lambda: cards)
        monkeypatch.setattr(collective.subprocess, "Popen", lambda command, **options: waiting.pop(0))
        return run_check(collective.run)[0]

    good = run(Rank({}), Rank({}))
    assert good.status == "ok" and good.attempts == 1
    wrong = run(Rank({}), Rank({"broadcast": "1 where 2"}))
    assert wrong.status == "wrong" and wrong.problems[0]["text"] == "rank 1, broadcast: 1 where 2"
    failed = run(Rank({"x": "y"}, 3), Rank({}))
    assert failed.status == "refused" and failed.problems[0]["text"] == f"rank 0 ended with 3: {'e' * 497}end" and len(failed.problems) == 1
    hung = run(Rank({}), Rank(None))
    assert hung.status == "hang" and hung.problems[0]["text"] == "no answer of rank 1 in 120 s"
    few = run(cards=1)
    assert few.status == "skipped" and few.note == "needs 2 cards, there are 1" and few.attempts == 0


def test_what_a_collective_gives_is_compared():
    x = torch.arange(1.0, 9.0)
    assert collective.same(x.npu(), x) == collective.same(x.half().npu(), x.long()) == collective.same(x.npu() * 1.009, x) == ""
    assert collective.same(x.npu() * 1.011, x) != ""
    assert collective.same(x.npu() + 1, x) == "[2.0, 3.0, 4.0, 5.0] where [1.0, 2.0, 3.0, 4.0] is expected"


def test_one_rank_of_collectives_that_are_wrong(monkeypatch):
    """Collectives that leave their tensors alone: every check says so."""
    import torch.distributed as dist

    for name in ("all_reduce", "broadcast", "all_gather", "reduce_scatter_tensor", "all_to_all_single", "recv", "send", "barrier"):
        monkeypatch.setattr(dist, name, lambda *args: None)
    monkeypatch.setattr(torch.nn.parallel, "DistributedDataParallel", lambda module: module)
    for rank, fine in ((0, {"send and recv"}), (1, {"all_reduce max", "broadcast"})):
        found = collective.checks(rank)
        every = {*(f"all_reduce {t}" for t in ("float32", "float16", "bfloat16", "int32", "int64")), "all_reduce max", "broadcast",
                 "all_gather", "reduce_scatter", "all_to_all", "send and recv", "DDP gradient"}
        assert set(found) == every - fine


def test_drivers_and_trees(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_DRIVER", tmp_path / "version.info")
    assert machine.driver() == "none"
    (tmp_path / "version.info").write_text("Package=x\nversion=25.1.rc1 \n")
    assert machine.driver() == "25.1.rc1"
    (tmp_path / "version.info").write_text("no such line")
    assert machine.driver() == "unknown"
    assert machine.clean_all({"a": ["at /x/y/z.so", 3], "b": None, "/x/y": True}) == {"a": ["at .../z.so", 3], "b": None, "/x/y": True}
    found = machine.describe()
    size = torch.npu.get_device_properties(0).total_memory / 2**30
    assert found["provider"] == "softnpu" and found["cards"] == f"{torch.npu.device_count()} of {size:.1f} GiB"
    assert found["machine"].split(", ")[1] == f"{len(os.sched_getaffinity(0))} cores"


@pytest.mark.parametrize("host, user, cleaned", [
    ("host1", "someone", "<host> <user> host12 root"), ("ab", "root", "host1 someone host12 root"),
    ("localhost", "xyz", "host1 someone host12 root")])
def test_names_of_hosts_and_users(host, user, cleaned, monkeypatch):
    monkeypatch.setattr(machine.socket, "gethostname", lambda: host)
    monkeypatch.setattr(machine.getpass, "getuser", lambda: user)
    assert machine.clean("host1 someone host12 root") == cleaned
    monkeypatch.setattr(machine.getpass, "getuser", lambda: (_ for _ in ()).throw(KeyError(1)))
    assert machine.clean("ok") == "ok"


def test_progress_in_a_file_and_on_a_terminal(capsys, monkeypatch):
    progress = __main__.Progress(150)
    for number in range(150):
        progress(f"op.{number}", check() if number != 120 else check("wrong", problems=[{"text": "first"}, {"text": "t" * 200}]))
    progress.end()
    assert capsys.readouterr().err.splitlines() == ["100 of 150 checks, 0 bad", f"WRONG op.120: {'t' * 150}", "150 of 150 checks, 1 bad"]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    progress = __main__.Progress(2)
    progress("op.a", check("crash", problems=[{"text": "x"}]))
    progress.end()
    assert capsys.readouterr().err == "\r\x1b[KCRASH op.a: x\n\r\x1b[K1/2, 1 bad, op.a\r\x1b[K"


def test_options_by_default():
    options = __main__.parser().parse_args([])
    assert (str(options.out), options.quick, options.only, options.timeout, options.minutes, options.list, options.compare) == (
        "torch_npu_verify.txt", False, [], 60.0, 10.0, False, None)


@pytest.fixture
def kit(monkeypatch, tmp_path):
    """The command line with a supervisor that answers at once."""
    monkeypatch.chdir(tmp_path)
    ran = {"statuses": {}, "note": {}}

    class Boss:
        def __init__(self, quick, seconds, note):
            self.note = note
            ran.update(quick=quick, seconds=seconds)

        def describe_machine(self):
            if ran.get("closed"):
                raise TimeoutError("no answer")
            return MACHINE

        def run(self, names, end):
            ran.update(names=names, end=end)
            for name in names:
                self.note(name, check(ran["statuses"].get(name, "ok"), problems=[PROBLEM | {"text": "at /a/b/c"}], **ran["note"]))
            if ran.get("interrupt"):
                raise KeyboardInterrupt

    def abi(names, folder, seconds, note):
        ran.update(abi=names, abi_seconds=seconds)
        for name in names:
            note(name, check())

    monkeypatch.setattr(supervisor, "Supervisor", Boss)
    monkeypatch.setattr(conformance, "names", lambda folder, soft: ["abi.A.x"])
    monkeypatch.setattr(conformance, "run", abi)
    monkeypatch.setattr(__main__.signal, "signal", lambda *args: None)

    def main(*arguments):
        monkeypatch.setattr(sys, "argv", ["verify", *arguments])
        return __main__.main()

    return main, ran


def test_the_command_line(kit, capsys, monkeypatch):
    main, ran = kit
    monkeypatch.setattr(__main__.time, "monotonic", lambda: 1000.0)
    assert main("--only", "op.F.glu", "--only", "abi", "--quick", "--timeout", "7", "--minutes", "2") == 0
    assert (ran["quick"], ran["seconds"], ran["names"], ran["abi"], ran["abi_seconds"]) == (True, 7.0, ["op.F.glu"], ["abi.A.x"], 7.0)
    assert ran["end"] == 1000.0 + 120
    output = capsys.readouterr()
    assert "softnpu 9.1, Ascend: 2 checks" in output.err and output.out.endswith("\nThe report is torch_npu_verify.txt\n")
    found = report.read(__main__.Path("torch_npu_verify.txt"))
    assert list(found["checks"]) == ["abi.A.x", "op.F.glu"] and found["quick"] is True and found["ended"] == "" and found["seconds"] == 0.0
    assert found["checks"]["op.F.glu"]["problems"][0]["text"] == "at .../c"
    ran["statuses"] = {"op.F.glu": "wrong"}
    assert main("--only", "op.F.glu") == 1 and ran["quick"] is False and ran["abi"] == []
    ran.update(statuses={}, interrupt=True)
    assert main("--only", "op.F.glu") == 1 and "ended early: interrupted" in capsys.readouterr().out
    ran.update(interrupt=False, note={"note": supervisor.TIME_IS_UP})
    assert main("--only", "op.F.glu", "--minutes", "0.5") == 1 and "ended early: 0.5 minutes were up" in capsys.readouterr().out


def test_the_command_line_without_a_program_or_a_card(kit, capsys, monkeypatch):
    main, ran = kit
    monkeypatch.setattr(conformance, "names", lambda folder, soft: [])
    assert main("--only", "abi", "--only", "op.F.glu") == 0 and ran["names"] == ["op.F.glu"] and "abi" not in ran
    assert f"  1: {conformance.ABSENT} (abi.conformance)" in capsys.readouterr().out
    ran["closed"] = True
    assert main("--only", "op.F.glu") == 1 and "verify: the first card does not open: no answer" in capsys.readouterr().err
    assert main("--list", "--only", "op.F.glu") == 0 and capsys.readouterr().out == "op.F.glu\n"
    for wrong in (("--timeout", "0"), ("--minutes", "0"), ("--minutes", "-1")):
        assert main("--only", "op.F.glu", *wrong) == 1
    ran["closed"] = False
    assert main("--only", "op.F.glu", "--timeout", "0.5", "--minutes", "0.5") == 0
    capsys.readouterr()
    file = "torch_npu_verify.txt"
    assert main("--compare", file, file) == 0 and capsys.readouterr().out == "The two reports agree.\n"
