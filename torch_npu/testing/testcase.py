"""TestCase with the assertions that tests for the official plugin use, and run_tests()."""

from __future__ import annotations

import contextlib
import os
import random
import re
import sys
import unittest
import warnings
from collections.abc import Mapping, Sequence, Set
from numbers import Number
from types import ModuleType

import numpy
import torch

from torch_npu import testing
from torch_npu.testing.common_utils import PERF_TEST_ENABLE as PERF_TEST_ENABLE, is_iterable, iter_indices, set_npu_device

try:
    import expecttest
except ImportError:  # only assertExpected* of a test needs it
    _Expecting: type = unittest.TestCase
else:
    _Expecting = expecttest.TestCase

IS_IN_CI = os.environ.get("IN_CI") == "1"
TEST_REPORT_PATH = os.environ.get("TEST_REPORT_PATH", "test-reports")
_TYPES = (numpy.bool_, numpy.uint8, numpy.int8, numpy.uint16, numpy.int16, numpy.int32, numpy.int64, numpy.float16, numpy.float32,
          numpy.float64)


def run_tests():
    """unittest.main() of the file that calls it; with IN_CI=1 the results are XML files below TEST_REPORT_PATH."""
    if not IS_IN_CI:
        unittest.main(argv=sys.argv)
        return
    import xmlrunner

    file = sys._getframe(1).f_code.co_filename
    folder = os.path.join(TEST_REPORT_PATH, file.removesuffix(".py").replace("/", "."))
    verbosity = 2 if {"-v", "--verbose"} & set(sys.argv) else 1
    unittest.main(argv=sys.argv, testRunner=xmlrunner.XMLTestRunner(output=folder, verbosity=verbosity))


class TestCase(testing.TestCase, _Expecting):  # type: ignore[misc]
    """Sets the card of SET_NPU_DEVICE and the seed of SEED (666). Skips where there is no npu."""

    precision = 1e-5  # the largest difference that assertEqual takes for none
    maxDiff = None
    exact_dtype = False

    def __init__(self, method_name="runTest"):
        super().__init__(method_name)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.npu_device = set_npu_device()

    def setUp(self):
        seed = int(os.environ.get("SEED", "666"))
        torch.manual_seed(seed)
        random.seed(seed)

    # ---- Relative and absolute differences ----

    def assertRtolEqual(self, x, y, prec=1.0e-4, prec16=1.0e-3, auto_trans_dtype=False, message=None):
        """Same shape and type, and values that differ by at most `prec` (`prec16` for half precision), relatively or absolutely.

        Of a large tensor the share `prec` of the elements may differ by more, as with the official plugin. Sequences are compared
        element by element; auto_trans_dtype casts x to y's type.
        """
        if isinstance(x, Sequence) and isinstance(y, Sequence):
            if len(x) != len(y):
                self.fail(message or f"{len(x)} values, expected {len(y)}")
            for one, other in zip(x, y, strict=True):
                self.assertRtolEqual(one, other, prec, prec16, auto_trans_dtype, message)
            return
        if isinstance(x, torch.Tensor) and isinstance(y, Sequence):
            y = torch.as_tensor(y, dtype=x.dtype)
        elif isinstance(y, torch.Tensor) and isinstance(x, Sequence):
            x = torch.as_tensor(x, dtype=y.dtype)
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
            if auto_trans_dtype:
                x = x.to(y.dtype)
            if x.dtype == y.dtype == torch.bfloat16:
                self._fail_unless(x.shape == y.shape, message, f"shape {list(x.shape)}, expected {list(y.shape)}")
                close = torch.allclose(x.cpu(), y.cpu(), rtol=prec16, atol=prec16)
                self._fail_unless(close, message, "values differ")
                return
        a, b = _array(x), _array(y)
        self._fail_unless(a.shape == b.shape, message, f"shape {a.shape}, expected {b.shape}")
        self._fail_unless(a.dtype == b.dtype, message, f"type {a.dtype}, expected {b.dtype}")
        self._fail_unless(a.dtype in _TYPES, message, f"{a.dtype} cannot be compared")
        self._compare(a, b, prec16 if a.dtype == numpy.float16 else prec, message)

    def _compare(self, a, b, limit: float, message) -> None:
        if a.dtype == numpy.bool_:
            self._fail_unless(bool((a == b).all()), message, "values differ")
            return
        both_nan = numpy.isnan(a) & numpy.isnan(b)
        self._fail_unless(bool((numpy.isnan(a) == numpy.isnan(b)).all()), message, "nan in different places")
        with numpy.errstate(all="ignore"):
            same = (a == b) | both_nan
            difference = numpy.where(same, 0, numpy.abs(b.astype(numpy.float64) - a.astype(numpy.float64)))
            smallest = 6e-8 if a.dtype == numpy.float16 else 1e-9
            scale = numpy.maximum(numpy.abs(a.astype(numpy.float64)), numpy.abs(b.astype(numpy.float64))) + smallest
            absolutely, relatively = ~(difference <= limit), ~(numpy.where(same, 0, difference / scale) <= limit)
        allowed = a.size * limit
        if absolutely.sum() > allowed and relatively.sum() > allowed:
            worst = numpy.unravel_index(numpy.where(relatively, difference, 0).argmax(), a.shape) if a.shape else ()
            place = tuple(map(int, worst))
            self.fail(message or f"{int(relatively.sum())} of {a.size} values differ by more than {limit}, most at {place}: "
                                 f"{a[worst]}, expected {b[worst]}")

    def _fail_unless(self, holds: bool, message, reason: str) -> None:
        if not holds:
            self.fail(message or reason)

    # ---- Equality ----

    def assertEqual(self, x, y, prec=None, message="", allow_inf=False, exact_dtype=None):
        """Numbers, tensors and what is made of them: equal up to `prec` (self.precision). Infinities only with allow_inf."""
        if isinstance(prec, str) and message == "":
            prec, message = None, prec
        prec = self.precision if prec is None else prec
        exact_dtype = self.exact_dtype if exact_dtype is None else exact_dtype
        options = (prec, message, allow_inf, exact_dtype)
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
            self._assertTensorsEqual(x, y, *options)
        elif _is_number(x) and _is_number(y):
            if isinstance(x, (bool, numpy.bool_)) or isinstance(y, (bool, numpy.bool_)):
                self._assertBoolEqual(x, y, *options)
            else:
                self._assertNumberEqual(x, y, *options)
        elif isinstance(x, (str, bytes, Set)) or isinstance(y, (str, bytes, Set)):
            unittest.TestCase.assertEqual(self, x, y, message)
        elif isinstance(x, Mapping) and isinstance(y, Mapping):
            unittest.TestCase.assertEqual(self, set(x), set(y), message)
            for key in x:
                self.assertEqual(x[key], y[key], *options)
        elif isinstance(x, numpy.ndarray) and isinstance(y, numpy.ndarray):
            self._assertTensorsEqual(torch.from_numpy(x), torch.from_numpy(y), *options)
        elif is_iterable(x) and is_iterable(y) and not isinstance(x, torch.Tensor) and not isinstance(y, torch.Tensor):
            one, other = list(x), list(y)
            unittest.TestCase.assertEqual(self, len(one), len(other), message)
            for a, b in zip(one, other, strict=True):
                self.assertEqual(a, b, *options)
        elif isinstance(x, torch.Tensor) and isinstance(y, Sequence) or isinstance(y, torch.Tensor) and isinstance(x, Sequence):
            self.assertEqual(x.tolist() if isinstance(x, torch.Tensor) else x, y.tolist() if isinstance(y, torch.Tensor) else y, *options)
        else:
            unittest.TestCase.assertEqual(self, x, y, message)

    def _assertNumberEqual(self, x, y, prec=None, message="", allow_inf=False, exact_dtype=None):
        x, y = (value.item() if isinstance(value, torch.Tensor) else value for value in (x, y))
        if abs(x) == float("inf") or abs(y) == float("inf"):
            self.assertTrue(allow_inf, message or f"finite numbers expected, got {x} and {y}")
            unittest.TestCase.assertEqual(self, x, y, message)
        elif not (x != x and y != y):  # two nan are equal
            self.assertLessEqual(abs(x - y), self.precision if prec is None else prec, message)

    def _assertBoolEqual(self, x, y, prec=None, message="", allow_inf=False, exact_dtype=None):
        x, y = (value.item() if isinstance(value, torch.Tensor) else value for value in (x, y))
        unittest.TestCase.assertEqual(self, x, y, message)

    def _assertTensorsEqual(self, x, y, prec=None, message="", allow_inf=False, exact_dtype=None):
        for attribute in ("is_sparse", "is_quantized"):
            unittest.TestCase.assertEqual(self, getattr(x, attribute), getattr(y, attribute), message or attribute)
        if x.is_sparse:
            x, y = self.safeCoalesce(x), self.safeCoalesce(y)
            self._assert_tensor_equal(x._indices(), y._indices(), message, exact_dtype, allow_inf, prec)
            x, y = x._values(), y._values()
        elif x.is_quantized:
            unittest.TestCase.assertEqual(self, x.qscheme(), y.qscheme(), message)
            x, y = x.dequantize(), y.dequantize()
        self._assert_tensor_equal(x, y, message, exact_dtype, allow_inf, prec)

    def _assert_tensor_equal(self, a, b, message, exact_dtype, allow_inf, prec):
        unittest.TestCase.assertEqual(self, a.size(), b.size(), message)
        if exact_dtype:
            unittest.TestCase.assertEqual(self, a.dtype, b.dtype, message)
        a, b = a.detach().cpu(), b.detach().cpu().to(a.dtype)
        if a.numel() == 0:
            return
        wide = torch.complex128 if a.is_complex() else torch.float64
        same = (a == b) | (a.isnan() & b.isnan())
        if not allow_inf and bool((a.isinf() | b.isinf()).any()):
            self.fail(message or "finite values expected; allow_inf=True compares infinities")
        difference = torch.where(same, torch.zeros((), dtype=torch.float64), (a.to(wide) - b.to(wide)).abs())
        self._fail_unless(not bool(difference.isnan().any()), message, "nan in different places")
        self.assertLessEqual(difference.max().item(), self.precision if prec is None else prec, message)

    def assertNotEqual(self, x, y, prec=None, message=""):
        """The opposite of assertEqual; tensors of different sizes are not equal."""
        if isinstance(prec, str) and message == "":
            prec, message = None, prec
        try:
            self.assertEqual(x, y, prec, "", allow_inf=True)
        except (AssertionError, TypeError):
            return
        self.fail(message or f"{x!r} equals {y!r}")

    def assertAlmostEqual(self, x, y, places=None, msg=None, delta=None, allow_inf=None):
        """assertEqual up to `delta`, or to so many decimal places."""
        self.assertEqual(x, y, 10.0**-places if places else delta, msg or "", bool(allow_inf))

    def assertTensorsSlowEqual(self, x, y, prec=None, message=""):
        """assertEqual with equal types, an element after the other."""
        unittest.TestCase.assertEqual(self, (x.size(), x.dtype), (y.size(), y.dtype), message)
        for index in iter_indices(x):
            self.assertEqual(x[index].item(), y[index].item(), prec, message)

    def assertObjectIn(self, obj, iterable):
        """`obj` itself, not an equal one, is an element."""
        if not any(element is obj for element in iterable):
            raise AssertionError("object not found in iterable")

    # ---- Sparse tensors ----

    def genSparseTensor(self, size, sparse_dim, nnz, is_uncoalesced, device="cpu"):
        """(tensor, its indices, its values) with `nnz` random elements, twice as many with is_uncoalesced."""
        if nnz and not all(size[:sparse_dim]):
            raise RuntimeError("elements need sparse dimensions that are not empty")
        values = torch.randn([nnz, *size[sparse_dim:]], device=device)
        indices = (torch.rand(sparse_dim, nnz, device=device) * torch.tensor(size[:sparse_dim], device=device).unsqueeze(1)).long()
        if is_uncoalesced:
            values, indices = torch.cat([values, torch.randn_like(values)]), torch.cat([indices, indices], 1)
        made = torch.sparse_coo_tensor(indices, values, torch.Size(size))
        made = made.detach().clone() if is_uncoalesced else made.coalesce()
        return made, made._indices().clone(), made._values().clone()

    def safeCoalesce(self, t):
        """t.coalesce(), whose elements were compared with t's."""
        made = t.coalesce()
        self.assertTrue(made.is_coalesced())
        self.assertEqual(made.to_dense(), t.to_dense(), allow_inf=True)
        return made

    def safeToDense(self, t):
        return self.safeCoalesce(t).to_dense()

    # ---- Errors and warnings ----

    def assertExpectedRaises(self, exc_type, call_fn, *args, **kwargs):
        """The call raises, and its message is what the file of expectations says (package expecttest)."""
        subname = kwargs.pop("subname", None)
        with self.assertRaises(exc_type) as caught:
            call_fn(*args, **kwargs)
        self.assertExpected(str(caught.exception), subname)

    def assertExpectedStripMangled(self, s, subname=None):
        """assertExpected without the numbers in TorchScript's names of classes."""
        self.assertExpected(re.sub(r"__torch__[^ ]+", "", s), subname)

    def assertNotWarn(self, call_fn, msg=""):
        self._reset_warning_registry()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call_fn()
        self.assertTrue(not caught, msg or f"warned: {[str(warning.message) for warning in caught]}")

    def assertWarns(self, call_fn, msg=""):
        """Of a call; of a category, unittest's context manager."""
        if isinstance(call_fn, (type, tuple)):
            return super().assertWarns(call_fn)
        self._reset_warning_registry()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call_fn()
        self.assertTrue(caught, msg or "no warning")

    @contextlib.contextmanager
    def maybeWarnsRegex(self, category, regex=""):
        """A block that may warn, but with this text only."""
        self._reset_warning_registry()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for warning in caught:
            fits = issubclass(warning.category, category) and re.search(regex, str(warning.message))
            self.assertTrue(fits, f"warned {warning.category.__name__}: {warning.message}, which is not {regex!r}")

    def _reset_warning_registry(self):
        """Python warns once for each place; it forgets which."""
        for module in list(sys.modules.values()):
            registry = vars(module).get("__warningregistry__") if isinstance(module, ModuleType) else None
            if registry:
                registry.clear()

    def run(self, result=None):
        """With PERF_TEST_ENABLE=1 the seconds of a test that passes are kept, see common_utils.PerfBaseline."""
        if not PERF_TEST_ENABLE:
            return super().run(result)
        import time

        from torch_npu.testing.common_utils import PerfBaseline

        start = time.perf_counter()
        result = super().run(result)
        PerfBaseline.set_baseline(self.id(), time.perf_counter() - start)
        return result


def _is_number(value) -> bool:
    return isinstance(value, (Number, numpy.bool_)) or (isinstance(value, torch.Tensor) and value.numel() == 1)


def _array(value):
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else numpy.asarray(value)
