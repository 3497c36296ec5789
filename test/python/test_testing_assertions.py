"""torch_npu.testing.testcase: for each assertion, pairs of values that it takes and the nearest ones that it refuses."""

import io
import unittest
import warnings

import numpy
import pytest
import torch

from torch_npu.testing import testcase
from torch_npu.testing.testcase import TestCase

CASE = TestCase()
NAN, INF = float("nan"), float("inf")
THOUSAND = torch.full((5,), 1000.0)
MANY = torch.ones(10000)
SPARSE = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse()
OTHER_PLACE = torch.tensor([[2.0, 0.0], [3.0, 0.0]]).to_sparse()


def with_differences(count, size=1.0):
    return torch.cat([torch.full((count,), 1 + size), torch.ones(10000 - count)])


def quantised(values, scheme=torch.per_tensor_affine):
    if scheme == torch.per_tensor_affine:
        return torch.quantize_per_tensor(values, 0.5, 0, torch.qint8)
    return torch.quantize_per_channel(values, torch.full((2,), 0.5), torch.zeros(2), 0, torch.qint8)


def holds(assertion, *args, **options):
    """An assertion passes or fails; any other exception is a mistake of its own."""
    try:
        assertion(*args, **options)
    except AssertionError:
        return False
    return True


RTOL = [
    (THOUSAND, THOUSAND + 0.05, {}, True), (THOUSAND, THOUSAND + 0.5, {}, False), (THOUSAND, THOUSAND + 0.5, {"prec": 1e-3}, True),
    (torch.zeros(5), torch.full((5,), 9e-5), {}, True), (torch.zeros(5), torch.full((5,), 2e-4), {}, False),
    (numpy.array([0.0]), numpy.array([0.25]), {"prec": 0.25}, True), (numpy.array([64.0]), numpy.array([48.0]), {"prec": 0.24}, False),
    (numpy.array([64.0]), numpy.array([48.0]), {"prec": 16 / (64 + 1e-9)}, True),  # exactly
    (numpy.array([256, 256]), numpy.array([192, 192]), {"prec": 0.26}, True),  # of the greater one
    (THOUSAND.half(), THOUSAND.half() * 1.0005, {}, True), (THOUSAND.half(), THOUSAND.half() * 1.01, {}, False),
    (THOUSAND.half(), THOUSAND.half() * 1.01, {"prec16": 0.02}, True), (THOUSAND, THOUSAND * 1.01, {"prec16": 0.02}, False),
    (THOUSAND.bfloat16(), THOUSAND.bfloat16() * 1.01, {}, False), (THOUSAND.bfloat16(), THOUSAND.bfloat16() * 1.01, {"prec16": 0.02}, True),
    (THOUSAND.bfloat16(), THOUSAND[:4].bfloat16(), {}, False), (THOUSAND.bfloat16(), THOUSAND[:1].bfloat16(), {}, False),
    (MANY, with_differences(1), {}, True), (MANY, with_differences(2), {}, False),
    (THOUSAND, THOUSAND[:4], {}, False), (THOUSAND, THOUSAND[:1], {}, False), (THOUSAND, THOUSAND.half(), {}, False),
    (THOUSAND.half(), THOUSAND, {"auto_trans_dtype": True}, True), (THOUSAND, [1000.0] * 5, {}, True), ([1000.0] * 5, THOUSAND, {}, True),
    ([1000.0] * 4, THOUSAND, {}, False), ([1.0, 2.0], [1.0, 2.00001], {}, True), ([1.0, 2.0], [1.0, 2.1], {}, False),
    ([1.0, 2.0], [1.0, 2.1], {"prec": 0.2}, True), ([1.0], [1.0, 2.0], {}, False), ([THOUSAND], [THOUSAND + 1], {}, False),
    ([THOUSAND.half()], [THOUSAND.half() + 8], {"prec16": 0.02}, True), ([THOUSAND.half()], [THOUSAND], {"auto_trans_dtype": True}, True),
    (torch.tensor([NAN, 1.0]), torch.tensor([NAN, 1.0]), {}, True), (torch.tensor([NAN, 1.0]), torch.tensor([1.0, NAN]), {}, False),
    (torch.tensor([INF, 1.0]), torch.tensor([INF, 1.0]), {}, True), (torch.tensor([INF]), torch.tensor([-INF]), {}, False),
    (torch.tensor([True, False]), torch.tensor([True, False]), {}, True),
    (torch.tensor([True, False]), torch.tensor([True, True]), {}, False),
    (torch.tensor([3, 4]), torch.tensor([3, 4]), {}, True), (torch.tensor([3, 4]), torch.tensor([3, 5]), {}, False),
    (torch.tensor(2.0), torch.tensor(2.0), {}, True), (torch.tensor(2.0), torch.tensor(3.0), {}, False),
    (numpy.array([1j]), numpy.array([1j]), {}, False),  # complex numbers are not compared
]
EQUAL = [
    (1, 1, {}, True), (1, 2, {}, False), (1.0, 1.25, {"prec": 0.25}, True), (1.0, 1.25, {"prec": 0.2}, False), (1.0, 1 + 9e-6, {}, True),
    (1.0, 1 + 2e-5, {}, False), (NAN, NAN, {}, True), (NAN, 1.0, {}, False), (1.0, NAN, {}, False),
    (INF, INF, {}, False), (INF, INF, {"allow_inf": True}, True), (INF, -INF, {"allow_inf": True}, False),
    (INF, 1.0, {"allow_inf": True, "prec": INF}, False), (1.0, INF, {"allow_inf": True, "prec": INF}, False), (1.0, -INF, {}, False),
    (True, True, {}, True), (True, False, {}, False), (True, 1.000001, {}, False), (numpy.bool_(True), True, {}, True),
    (numpy.bool_(True), 1.000001, {}, False), (1.000001, numpy.bool_(True), {}, False), (torch.tensor(3.0), 3.0, {}, True),
    (3.0, torch.tensor([3.5]), {}, False), ("a", "a", {}, True), ("a", "b", {}, False), ("a", 1, {}, False), (1, "a", {}, False),
    (b"a", b"a", {}, True), ({1, 2}, {2, 1}, {}, True), ({1, 2}, {1}, {}, False), ({1}, [1], {}, False), ([1], {1}, {}, False),
    (["a"], "a", {}, False), ("a", ["a"], {}, False),
    ({"a": 1.0}, {"a": 1.1}, {"prec": 0.2}, True), ({"a": 1.0}, {"a": 1.1}, {}, False), ({"a": 1}, {"b": 1}, {}, False),
    ({"a": 1}, {"a": 1, "b": 1}, {}, False), ({"a": 1}, ["a"], {}, True), (["b"], {"a": 1}, {}, False),  # by its keys
    ([1, 2.0], (1, 2.0), {}, True), ([1, 2], [1, 3], {}, False), ([1], [1, 2], {}, False), ([1, 2], [1], {}, False), ([], [], {}, True),
    (1, [1], {}, False), ([1], 1, {}, False), ([1, 1], 1, {}, False), (None, None, {}, True), (None, 1, {}, False), (2, None, {}, False),
    ([1.0, [2.0]], [1.0, [2.1]], {"prec": 0.2}, True), (range(2), [0, 1], {}, True),
    (numpy.ones(2), numpy.ones(2), {}, True), (numpy.ones(2), numpy.ones(2) * 1.1, {}, False), (numpy.ones(2), numpy.ones(3), {}, False),
    (numpy.ones((2, 2)), numpy.ones(4), {}, False), (torch.ones(2), [1.0, 1.0], {}, True), ([1.0, 1.0], torch.ones(2), {}, True),
    (torch.ones(2), [1.0, 2.0], {}, False), ([1.0, 2.0], torch.ones(2), {}, False), (torch.ones(2), [1.0], {}, False),
    (torch.ones(2), torch.ones(2) + 9e-6, {}, True), (torch.ones(2), torch.ones(2) + 1e-4, {}, False),
    (torch.ones(2), torch.full((2,), 1.25), {"prec": 0.25}, True), (torch.ones(2), torch.ones(1), {}, False),
    (torch.ones(2), torch.ones(2).double(), {}, True), (torch.ones(2), torch.ones(2).double(), {"exact_dtype": True}, False),
    (torch.ones(2), torch.ones(2), {"exact_dtype": True}, True), (torch.ones(0), torch.ones(0), {}, True),
    (torch.ones(0), torch.ones(1), {}, False),
    (torch.tensor([NAN, 1]), torch.tensor([NAN, 1]), {}, True), (torch.tensor([NAN, 1]), torch.tensor([1, NAN]), {}, False),
    (torch.tensor([INF]), torch.tensor([INF]), {}, False), (torch.tensor([INF]), torch.tensor([INF]), {"allow_inf": True}, True),
    (torch.tensor([1.0]), torch.tensor([INF]), {}, False), (torch.tensor([1.0]), torch.tensor([INF]), {"allow_inf": True}, False),
    (torch.tensor([1j]), torch.tensor([1j]), {}, True), (torch.tensor([1j]), torch.tensor([-1j]), {}, False),
    (torch.tensor([True]), torch.tensor([False]), {}, False), (torch.tensor([3]), torch.tensor([4]), {}, False),
    (SPARSE, SPARSE, {}, True), (SPARSE, SPARSE * 2, {}, False), (SPARSE, SPARSE.to_dense(), {}, False), (SPARSE, OTHER_PLACE, {}, False),
    (SPARSE, SPARSE * 1.1, {"prec": 0.5}, True), (SPARSE, SPARSE.double(), {"exact_dtype": True}, False),
    (quantised(torch.ones(2)), quantised(torch.ones(2)), {}, True), (quantised(torch.ones(2)), quantised(torch.zeros(2)), {}, False),
    (quantised(torch.ones(2)), torch.ones(2), {}, False),
    (quantised(torch.ones(2)), quantised(torch.ones(2), torch.per_channel_affine), {}, False),
]


@pytest.mark.parametrize("x, y, options, expected", RTOL)
def test_relative_equality(x, y, options, expected):
    assert holds(CASE.assertRtolEqual, x, y, **options) is expected


@pytest.mark.parametrize("x, y, options, expected", EQUAL)
def test_equality(x, y, options, expected):
    assert holds(CASE.assertEqual, x, y, **options) is expected
    if "exact_dtype" not in options:
        # Infinities that are equal are not different, whether assertEqual takes them or not.
        equal = holds(CASE.assertEqual, x, y, **{**options, "allow_inf": True})
        assert holds(CASE.assertNotEqual, x, y, options.get("prec")) is not equal


@pytest.mark.parametrize("assertion, x, y, expected", [
    (CASE.assertEqual, 1, 2, "mine"), (CASE.assertEqual, SPARSE, SPARSE.to_dense(), "mine"), (CASE.assertEqual, [1], [1, 2], "mine"),
    (CASE.assertEqual, {"a": 1}, {}, "mine"), (CASE.assertEqual, "a", "b", "mine"), (CASE.assertEqual, True, False, "mine"),
    (CASE.assertEqual, INF, 1.0, "mine"), (CASE.assertEqual, torch.ones(1), torch.ones(2), "mine"), (CASE.assertEqual, None, 1, "mine"),
    (CASE.assertEqual, torch.ones(2), torch.zeros(2), "mine"), (CASE.assertEqual, torch.ones(2), torch.tensor([1, NAN]), "mine"),
    (CASE.assertEqual, torch.ones(2), torch.tensor([1, INF]), "mine"), (CASE.assertNotEqual, 1, 1, "mine"),
    (CASE.assertRtolEqual, torch.ones(2), torch.zeros(2), "mine"), (CASE.assertRtolEqual, torch.ones(2), torch.ones(3), "mine"),
    (CASE.assertRtolEqual, [1], [1, 2], "mine"), (CASE.assertRtolEqual, [1.0], [2.0], "mine"),
    (CASE.assertTensorsSlowEqual, torch.ones(2), torch.ones(3), "mine"),
    (CASE.assertTensorsSlowEqual, torch.ones(2), torch.zeros(2), "mine"),
])  # fmt: skip
def test_a_message_of_the_caller(assertion, x, y, expected):
    with pytest.raises(AssertionError, match=expected):
        assertion(x, y, message=expected)
    if assertion in (CASE.assertEqual, CASE.assertNotEqual):
        with pytest.raises(AssertionError, match=expected):
            assertion(x, y, expected)  # in place of the precision, as unittest has it


@pytest.mark.parametrize("assertion, x, y, expected", [
    (CASE.assertRtolEqual, torch.tensor([[1.0, 5.0], [9.0, 2.0]]), torch.tensor([[1.5, 5.0], [2.0, 2.0]]),
     r"2 of 4 .*most at \(1, 0\): 9.0, expected 2.0"),
    (CASE.assertRtolEqual, torch.tensor(9.0), torch.tensor(2.0), r"1 of 1 values .* at \(\): 9.0, expected 2.0"),
    (CASE.assertRtolEqual, torch.ones(2), torch.ones(3), r"shape \(2,\), expected \(3,\)"),
    (CASE.assertRtolEqual, torch.ones(2).bfloat16(), torch.ones(3).bfloat16(), r"shape \[2\], expected \[3\]"),
    (CASE.assertRtolEqual, torch.ones(2), torch.ones(2).double(), "type float32, expected float64"),
    (CASE.assertRtolEqual, numpy.array([1j]), numpy.array([1j]), "complex128 cannot be compared"),
    (CASE.assertRtolEqual, [1], [1, 2], "1 values, expected 2"),
    (CASE.assertRtolEqual, torch.tensor([NAN]), torch.ones(1), "nan in different places"),
    (CASE.assertEqual, torch.tensor([NAN, 1]), torch.ones(2), "nan in different places"),
    (CASE.assertEqual, SPARSE, SPARSE.to_dense(), "is_sparse"),
    (CASE.assertEqual, quantised(torch.ones(2)), torch.ones(2), "is_quantized"),
    (CASE.assertEqual, torch.ones(2), torch.tensor([1, INF]), "allow_inf=True"),
    (CASE.assertEqual, INF, 1.0, "finite numbers expected, got inf and 1.0"),
    (CASE.assertNotEqual, 1, 1, "1 equals 1"),
])  # fmt: skip
def test_what_a_failure_says(assertion, x, y, expected):
    with pytest.raises(AssertionError, match=expected):
        assertion(x, y)


def test_precision_of_a_class():
    class Coarse(TestCase):
        precision = 0.5
        exact_dtype = True

    assert holds(Coarse().assertEqual, 1.0, 1.4) and not holds(Coarse().assertEqual, 1.0, 1.6)
    assert holds(Coarse().assertEqual, torch.ones(2), torch.full((2,), 1.4))
    assert not holds(Coarse().assertEqual, torch.ones(2), torch.ones(2).double())
    assert holds(Coarse().assertEqual, torch.ones(2), torch.ones(2).double(), exact_dtype=False)
    assert holds(Coarse()._assertNumberEqual, 1.0, 1.4) and not holds(Coarse()._assertNumberEqual, 1.0, 1.4, 0.1)
    assert holds(Coarse()._assertTensorsEqual, torch.ones(2), torch.full((2,), 1.4))


def test_places_and_delta():
    assert holds(CASE.assertAlmostEqual, 1.0, 1.04, places=1) and not holds(CASE.assertAlmostEqual, 1.0, 1.04, places=2)
    assert holds(CASE.assertAlmostEqual, 1.0, 1.4, delta=0.5) and not holds(CASE.assertAlmostEqual, 1.0, 1.4)
    assert holds(CASE.assertAlmostEqual, INF, INF, allow_inf=True) and not holds(CASE.assertAlmostEqual, INF, INF)
    with pytest.raises(AssertionError, match="mine"):
        CASE.assertAlmostEqual(1.0, 2.0, msg="mine")


def test_element_by_element():
    x = torch.arange(6.0).view(2, 3)
    assert holds(CASE.assertTensorsSlowEqual, x, x.clone()) and not holds(CASE.assertTensorsSlowEqual, x, x.double())
    assert not holds(CASE.assertTensorsSlowEqual, x, x + 0.1) and holds(CASE.assertTensorsSlowEqual, x, x + 0.1, prec=0.2)


def test_an_object_itself():
    x = torch.ones(1)
    assert holds(CASE.assertObjectIn, x, [torch.zeros(1), x]) and not holds(CASE.assertObjectIn, x, [torch.ones(1)])


@pytest.mark.parametrize("twice", [True, False])
def test_sparse_tensors(twice):
    made, indices, values = CASE.genSparseTensor([5, 6, 2], 2, 4, twice)
    assert made.shape == (5, 6, 2) and made.sparse_dim() == 2 and made.is_coalesced() is not twice and torch.equal(made._values(), values)
    assert torch.equal(made._indices(), indices) and (values.shape[0] == 8 if twice else values.shape[0] <= 4)
    assert torch.equal(CASE.safeToDense(made), made.to_dense()) and CASE.safeCoalesce(made).is_coalesced()
    assert indices[0].max() < 5 and indices[1].max() < 6 and CASE.genSparseTensor([0, 2], 1, 0, twice)[0].shape == (0, 2)
    with pytest.raises(RuntimeError, match="not empty"):
        CASE.genSparseTensor([0, 2], 1, 3, twice)


def test_warnings():
    def warn():
        warnings.warn("of an old name", DeprecationWarning, stacklevel=1)

    def nothing():
        pass

    for _ in range(2):  # Python remembers the place of a warning
        assert holds(CASE.assertWarns, warn) and not holds(CASE.assertNotWarn, warn)
    assert holds(CASE.assertNotWarn, nothing) and not holds(CASE.assertWarns, nothing)
    for assertion, function in ((CASE.assertWarns, nothing), (CASE.assertNotWarn, warn)):
        with pytest.raises(AssertionError, match="mine"):
            assertion(function, "mine")
    with pytest.raises(AssertionError, match="no warning"):
        CASE.assertWarns(nothing)
    with pytest.raises(AssertionError, match="of an old name"):
        CASE.assertNotWarn(warn)
    with CASE.assertWarns(DeprecationWarning):
        warn()
    for category, text, expected in ((DeprecationWarning, "old", True), (DeprecationWarning, "new", False), (UserWarning, "old", False)):
        def block():
            with CASE.maybeWarnsRegex(category, text):
                warn()

        assert holds(block) is expected
    with CASE.maybeWarnsRegex(UserWarning):
        nothing()


class Numbers(TestCase):
    drawn: list = []

    def test_numbers(self):
        import random

        self.drawn.append((torch.rand(()).item(), random.random(), self.npu_device, torch.npu.current_device()))


def result_of_a_run():
    return unittest.TextTestRunner(io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(Numbers))


def test_every_test_starts_from_the_seed(monkeypatch):
    Numbers.drawn.clear()
    for seed in (None, "666", "7"):
        if seed:
            monkeypatch.setenv("SEED", seed)
        assert result_of_a_run().wasSuccessful()
    first, same, other = Numbers.drawn
    assert first == same and first[0] != other[0] and first[1] != other[1] and first[2:] == ("npu:0", 0)
    torch.manual_seed(666)
    assert torch.rand(()).item() == first[0]


def test_seconds_are_kept_if_asked_for(monkeypatch):
    from torch_npu.testing import common_utils

    kept = common_utils.Baseline("none.json")
    monkeypatch.setattr(common_utils, "PerfBaseline", kept)
    assert Numbers("test_numbers").run().testsRun == 1 and kept._numbers == {}
    monkeypatch.setattr(testcase, "PERF_TEST_ENABLE", True)
    test = Numbers("test_numbers")
    assert test.run().testsRun == 1 and 0 <= kept.get_baseline(test.id()) < 600


@pytest.mark.parametrize("in_ci", [True, False])
def test_run_tests(monkeypatch, in_ci):
    """unittest's main with the arguments of the program; in CI with a runner that writes below the folder of reports."""
    import sys
    import types

    calls = []
    runners = types.SimpleNamespace(XMLTestRunner=lambda output, verbosity: (output, verbosity))
    monkeypatch.setitem(sys.modules, "xmlrunner", runners)
    monkeypatch.setattr(testcase.unittest, "main", lambda argv, testRunner=None: calls.append((argv, testRunner)))
    monkeypatch.setattr(testcase, "IS_IN_CI", in_ci)
    for arguments in (["x.py"], ["x.py", "-v"], ["x.py", "--verbose"]):
        monkeypatch.setattr(sys, "argv", arguments)
        testcase.run_tests()
    folder = f"test-reports/{__file__.removesuffix('.py').replace('/', '.')}"
    assert calls == [(["x.py", *more], (folder, level) if in_ci else None) for more, level in (([], 1), (["-v"], 2), (["--verbose"], 2))]
