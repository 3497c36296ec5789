"""Compares one operator of torch's OpInfo database on npu with the CPU: forward, out=, in-place and backward.

The CPU is the reference in everything: a sample that it refuses is left out, and what it raises for an out= or in-place
call the npu must raise too. Inputs are made on the CPU and copied with their strides, offsets and lazy conjugation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

OPS = {f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in op_db}
# Results that nobody may rely on: only shape and type are compared.
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
# Operators whose arguments after the first stay on the CPU, on every device.
HOST_ARGUMENTS = {"tensor_split"}


@dataclass
class Result:
    """Of one check: pass, fail, fallback (an operator without kernel was met) or none (nothing to check)."""

    status: str = "none"
    samples: int = 0
    detail: str = ""
    random: int = 0  # of the samples: drawn at random, so values are compared with a second run of the same seed, not with the CPU


class FindsRandom(TorchDispatchMode):
    """Notes whether random numbers were drawn on the CPU. Dropout with p=0, for one, draws none."""

    found = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.found or torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **(kwargs or {}))
        before = torch.get_rng_state()
        result = func(*args, **(kwargs or {}))
        self.found = not torch.equal(before, torch.get_rng_state())
        return result


def pairs(dtypes: Sequence[torch.dtype]) -> list[tuple[str, torch.dtype]]:
    """Every (operator, dtype) that the OpInfo supports on the CPU."""
    return [(name, dtype) for name, op in OPS.items() for dtype in dtypes if dtype in op.supported_dtypes("cpu")]


def copy_tensor(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """A leaf on `device` with the layout of `tensor` in memory, whatever its strides."""
    if tensor.layout is not torch.strided:
        return tensor.detach().clone().to(device).requires_grad_(tensor.requires_grad)
    plain = tensor.detach()
    if tensor.is_conj():
        plain = plain.conj()
    if tensor.is_neg():
        plain = plain._neg_view()
    memory = torch.empty(0, dtype=tensor.dtype).set_(plain.untyped_storage()).clone().to(device)
    copy = memory.as_strided(plain.size(), plain.stride(), plain.storage_offset())
    copy = copy._neg_view() if tensor.is_neg() else copy
    copy = copy.conj() if tensor.is_conj() else copy
    return copy.requires_grad_(tensor.requires_grad)


def place(value, device: str):
    """A copy of a sample's arguments for `device`."""

    def convert(leaf):
        if isinstance(leaf, torch.Tensor):
            return copy_tensor(leaf, device)
        if isinstance(leaf, (str, torch.device)) and str(leaf) == "cpu":
            return device
        return leaf

    return tree_map(convert, value)


def tensors(value) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def spread(samples: Iterable, limit: int | None) -> list:
    """At most `limit` samples, from the first to the last: neighbours are alike, and options come late in the lists."""
    found = list(samples)
    if limit is None or len(found) <= limit:
        return found
    return [found[number * (len(found) - 1) // max(limit - 1, 1)] for number in range(limit)]


def makes_no_difference(sample) -> bool:
    """Whether a sample names no device at all, such as that of arange(2): its result is on the CPU anyway."""
    leaves = tree_flatten((sample.input, sample.args, sample.kwargs))[0]
    return not any(isinstance(leaf, (torch.Tensor, str, torch.device)) for leaf in leaves)


def tolerances(op, dtype: torch.dtype) -> dict[str, float]:
    """The OpInfo's own tolerances, where it has any for this type."""
    found = [decorator.d[dtype]
             for info in op.decorators if getattr(info, "cls_name", None) in (None, "TestCommon")
             for decorator in getattr(info, "decorators", [info])
             if isinstance(decorator, toleranceOverride) and dtype in decorator.d]
    return {"atol": max(t.atol for t in found), "rtol": max(t.rtol for t in found)} if found else {}


class Comparison:
    """The checks of one operator and dtype on at most `limit` samples."""

    def __init__(self, name: str, dtype: torch.dtype, limit: int | None = None, device: str = "npu"):
        self.name, self.op, self.dtype, self.limit, self.device = name, OPS[name], dtype, limit, device
        self.tolerances = tolerances(self.op, dtype)
        self.random = False  # whether the sample at hand is

    def run(self) -> dict[str, Result]:
        results = {"forward": self.check(self.forward, requires_grad=False)}
        if self.op.supports_out:
            results["out"] = self.check(self.out, requires_grad=False)
        if self.op.inplace_variant is not None:
            results["inplace"] = self.check(self.inplace, requires_grad=False)
        if self.dtype is torch.float32 and self.op.supports_autograd and self.dtype in self.op.supported_backward_dtypes("cpu"):
            results["backward"] = self.check(self.backward, requires_grad=True)
        return results

    def check(self, function: Callable, requires_grad: bool) -> Result:
        result = Result()
        torch.manual_seed(0)
        try:
            samples = spread(self.op.sample_inputs("cpu", self.dtype, requires_grad=requires_grad), self.limit)
        except Exception as error:  # the database cannot make inputs for this type
            result.detail = f"no samples: {error}"
            return result
        for number, sample in enumerate(samples):
            self.random = False
            try:
                checked = function(sample)
            except Exception as error:
                missing = isinstance(error, NotImplementedError) and "no npu kernel" in str(error)
                result.status = "fallback" if missing else "fail"
                result.detail = f"sample {number}: {describe(sample)}: {describe_error(error)}"
                recover()
                return result
            if checked:
                result.status, result.samples, result.random = "pass", result.samples + 1, result.random + self.random
        return result

    # Each of these returns False if the CPU refuses the sample.

    def arguments(self, sample, extra: dict | None = None) -> tuple:
        """The sample's arguments as copies on the npu."""
        rest = "cpu" if self.op.name in HOST_ARGUMENTS else self.device
        return place(sample.input, self.device), place(sample.args, rest), place({**sample.kwargs, **(extra or {})}, rest)

    def reference(self, function: Callable, sample):
        """What the CPU gives, or None if it raises; notes whether that was drawn at random."""
        try:
            self.random = self.draws(function, sample)
            value, args, kwargs = place((sample.input, sample.args, sample.kwargs), "cpu")
            return function(value, *args, **kwargs)  # without a mode, under which some operators on conjugated views compute something else
        except Exception:
            return None

    def draws(self, function: Callable, sample) -> bool:
        """Whether the result is drawn at random on the CPU."""
        value, args, kwargs = place((sample.input, sample.args, sample.kwargs), "cpu")
        with FindsRandom() as watch:
            function(value, *args, **kwargs)
        return watch.found

    def assert_repeats(self, function: Callable, sample) -> None:
        """What was drawn at random is the same again with the same seed, and something else with another one."""
        def drawn(seed: int, device: str) -> list[torch.Tensor]:
            value, args, kwargs = self.arguments(sample) if device != "cpu" else place((sample.input, sample.args, sample.kwargs), "cpu")
            torch.manual_seed(seed)
            result = tensors(function(value, *args, **kwargs))
            return [t.detach().cpu() for t in (result or tensors(value))]

        first, again, other = (drawn(seed, self.device) for seed in (1, 1, 2))
        for a, b in zip(first, again, strict=True):
            assert a.layout is not torch.strided or torch.equal(a.nan_to_num(), b.nan_to_num()), "two runs with the same seed differ"
        ours = all(torch.equal(a, b) for a, b in zip(first, other))
        theirs = all(torch.equal(a, b) for a, b in zip(drawn(1, "cpu"), drawn(2, "cpu")))
        assert ours <= theirs, "two runs with different seeds are equal"

    def forward(self, sample) -> bool:
        expected = self.reference(self.op, sample)
        if expected is None or makes_no_difference(sample):
            return False
        args = self.arguments(sample)
        self.assert_equal(self.op(args[0], *args[1], **args[2]), expected)
        if self.random:
            self.assert_repeats(self.op, sample)
        return True

    def out(self, sample) -> bool:
        expected = self.reference(self.op, sample)
        given = (expected,) if isinstance(expected, torch.Tensor) else expected
        if not isinstance(given, tuple) or not given or not all(isinstance(t, torch.Tensor) for t in given):
            return False
        checked = False
        for make in (same_layout, transposed_layout, no_elements, other_dtype):
            outs = tuple(make(t) for t in given)
            pack = outs if len(given) > 1 else outs[0]
            if isinstance(expected, tuple) and len(given) == 1:
                pack = outs
            values = None if make is other_dtype else expected
            checked |= self.same_effect(self.op, sample, {"out": pack}, strict=make is not other_dtype, values=values)
        return checked

    def inplace(self, sample) -> bool:
        if sample.broadcasts_input or not isinstance(sample.input, torch.Tensor):
            return False
        try:
            self.random = self.draws(self.op.inplace_variant, sample)
        except Exception:  # so must the npu
            self.random = False
        checked = self.same_effect(self.op.inplace_variant, sample, {}, strict=True)
        if self.random:
            self.assert_repeats(self.op.inplace_variant, sample)
        return checked

    def same_effect(self, function: Callable, sample, extra: dict, strict: bool, values=None) -> bool:
        """Same results, same changed arguments, or the same exception type; not strict: the npu may accept more.

        `values` may be in out= instead of what the CPU leaves there: some of its kernels fill out= as if it were contiguous.
        """
        ours = self.arguments(sample, extra)
        theirs = place((sample.input, sample.args, {**sample.kwargs, **extra}), "cpu")
        try:
            expected = function(theirs[0], *theirs[1], **theirs[2])
        except Exception as error:
            try:
                function(ours[0], *ours[1], **ours[2])
                torch.npu.synchronize()
            except type(error):
                return True
            if strict:
                raise AssertionError(f"the CPU raises {type(error).__name__}: {error}") from None
            return False
        actual = function(ours[0], *ours[1], **ours[2])
        try:
            self.assert_equal((actual, ours), (expected, theirs))
        except AssertionError:
            if values is None:
                raise
            for filled, value in zip(tensors(theirs[2]["out"]), tensors(values)):
                filled.copy_(value)
            self.assert_equal((actual, ours), (expected, theirs))
        return True

    def backward(self, sample) -> bool:
        def gradients(value, *args, **kwargs):
            leaves = [t for t in tensors((value, args, kwargs)) if t.requires_grad]
            result = self.op(value, *args, **kwargs)
            if sample.output_process_fn_grad is not None:
                result = sample.output_process_fn_grad(result)
            results = [t for t in tensors(result) if t.requires_grad]
            if not results:
                return None
            generator = torch.Generator().manual_seed(1)  # of its own: drawing from torch's means that the operator is random
            seeds = [torch.randn(t.shape, dtype=t.dtype, generator=generator).to(t.device) for t in results]
            return torch.autograd.grad(results, leaves, seeds, allow_unused=True)

        expected = self.reference(gradients, sample)
        if expected is None:
            return False
        args = self.arguments(sample)
        actual = gradients(args[0], *args[1], **args[2])
        try:
            self.assert_equal(actual, expected)
        except AssertionError as error:
            value, others, options = tree_map(in_float64, (sample.input, sample.args, sample.kwargs))
            if not is_as_near(actual, expected, gradients(value, *others, **options)):
                raise error from None
        return True

    def assert_equal(self, actual, expected) -> None:
        compare_values = not self.random and self.op.name not in UNINITIALISED
        got, want = tree_flatten(actual)[0], tree_flatten(expected)[0]
        assert len(got) == len(want), f"{len(got)} results, the CPU has {len(want)}"
        for a, e in zip(got, want):
            if not isinstance(e, torch.Tensor):
                if compare_values and not isinstance(e, (str, torch.device)) and isinstance(e, (int, float, complex)):
                    torch.testing.assert_close(a, e, equal_nan=True)
                continue
            if not (a.is_cpu and self.op.name in HOST_ARGUMENTS):
                assert a.device.type == self.device, f"the result is on {a.device}"
            a, e = a.detach().cpu(), e.detach()
            if compare_values:
                torch.testing.assert_close(a, e, equal_nan=True, **self.tolerances)
            else:
                assert (a.shape, a.dtype) == (e.shape, e.dtype), f"{a.dtype}{list(a.shape)}, the CPU has {e.dtype}{list(e.shape)}"


# Ill-conditioned samples, whose gradients in float32 are wrong in more digits than are compared, on the CPU as well.


def in_float64(value):
    is_float = isinstance(value, torch.Tensor) and value.dtype is torch.float32
    return value.detach().double().requires_grad_(value.requires_grad) if is_float else value


def is_as_near(actual, expected, exact) -> bool:
    """Whether every result is as near to the exact one as the CPU's is."""

    def distance(found: torch.Tensor, wanted: torch.Tensor) -> float:
        return float((found.detach().cpu().double() - wanted).abs().max())

    return all(a.shape == e.shape and distance(a, x) <= 1.5 * distance(e, x)
               for a, e, x in zip(actual, expected, exact) if e is not None)


# Shapes of out= tensors. They hold ones, so that an element which is not written shows.


def same_layout(t: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(t)


def transposed_layout(t: torch.Tensor) -> torch.Tensor:
    sparse = torch.ones([2 * n for n in reversed(t.shape)], dtype=t.dtype)[tuple(slice(0, None, 2) for _ in t.shape)]
    return sparse.permute(list(reversed(range(t.dim()))))


def no_elements(t: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=t.dtype)


def other_dtype(t: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(t, dtype=torch.int64 if t.dtype.is_floating_point or t.dtype.is_complex else torch.float32)


def describe(sample) -> str:
    def short(leaf):
        if isinstance(leaf, torch.Tensor):
            return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"
        return leaf

    return str(tree_map(short, (sample.input, *sample.args, sample.kwargs)))[:300]


def describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"


def recover() -> None:
    """Takes a pending device error off the stream, so that it is not blamed on the next sample."""
    try:
        torch.npu.synchronize()
    except RuntimeError:
        pass
