"""Tensors for tests, on the CPU and on the npu, and reasons to skip: the names that tests for the official plugin import."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import json
import os
import threading
import unittest

import numpy
import torch

import torch_npu
from torch_npu import npu
from torch_npu.utils._path_manager import PathManager

PERF_TEST_ENABLE = os.environ.get("PERF_TEST_ENABLE", "").upper() in ("ON", "1", "YES", "TRUE", "Y")
PERF_BASELINE_FILE = os.path.realpath(os.environ.get("PERF_BASELINE_FILE", "performance_baseline.json"))


@contextlib.contextmanager
def freeze_rng_state():
    """The block's random numbers are not missing afterwards: the CPU's generator and the current card's are put back."""
    with torch.random.fork_rng(devices=[npu.current_device()], device_type="npu"):
        yield


def iter_indices(tensor):
    """The indices of all elements: numbers for one dimension, tuples for more."""
    if tensor.dim() < 2:
        return range(tensor.numel() if tensor.dim() else 0)
    return itertools.product(*map(range, tensor.size()))


def is_iterable(obj):
    """Whether iter(obj) works."""
    try:
        iter(obj)
    except TypeError:
        return False
    return True


def get_npu_device():
    """"npu:N", N from SET_NPU_DEVICE, 0 by default."""
    return f"npu:{os.environ.get('SET_NPU_DEVICE', '0')}"


def set_npu_device():
    """Makes that card current, and returns its name."""
    device = get_npu_device()
    npu.set_device(device)
    return device


def create_common_tensor(item, minValue, maxValue, device=None):
    """(CPU tensor, npu tensor) of equal random numbers; `item` is (numpy type, storage format or -1, shape)."""
    dtype, npu_format, shape = item[0], item[1], item[2]
    return _pair(numpy.random.uniform(minValue, maxValue, shape).astype(dtype), npu_format, device)


def create_dtype_tensor(shape, dtype, npu_format=-1, min_value=-5, max_value=5, no_zero=False, device=None):
    """As create_common_tensor, for a torch type: bool, half and float are what they say, every other type is int32."""
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype must be a torch.dtype, got {dtype!r}")
    if dtype == torch.bool:
        values = numpy.random.randint(0, 2, size=shape).astype(bool)
    elif dtype in (torch.half, torch.float):
        kind = numpy.float16 if dtype == torch.half else numpy.float32
        values = numpy.random.uniform(min_value, max_value, shape).astype(kind)
    else:
        values = numpy.random.randint(min_value, max_value + 1, size=shape).astype(numpy.int32)
    if no_zero:
        values = numpy.where(values == 0, numpy.ones_like(values), values)
    return _pair(values, npu_format if dtype in (torch.half, torch.float) else -1, device)


def _pair(values, npu_format: int, device) -> tuple[torch.Tensor, torch.Tensor]:
    on_cpu = torch.from_numpy(numpy.array(values))
    on_npu = on_cpu.to(get_npu_device() if device is None else device, copy=True)
    return on_cpu, on_npu if npu_format == -1 else torch_npu.npu_format_cast(on_npu, npu_format)


def test_2args_broadcast(fn):
    """[CPU result, npu result] as arrays, for two pairs of shapes that broadcast."""
    results = []
    for other in ((1, 1, 1), (4, 5)):
        x, y = torch.rand(2, 3, 4, 5), torch.rand(other)
        results.append([fn(x, y).numpy(), fn(x.to(get_npu_device()), y.to(get_npu_device())).cpu().numpy()])
    return results


test_2args_broadcast.__test__ = False  # type: ignore[attr-defined] # no test of pytest


def check_operators_in_prof(expected_operators, prof, unexpected_operators=None):
    """Whether a profile has all of the expected operators and none of the unexpected ones."""
    names = {event.key.removeprefix("cached_") for event in prof.key_averages()}
    return names >= set(expected_operators) and not names & set(unexpected_operators or ())


class SkipIfNoLapack:
    """@SkipIfNoLapack(): torch on the CPU, the reference, may lack linear algebra."""

    def __call__(self, fn):
        return unittest.skipUnless(torch._C.has_lapack, "torch was built without LAPACK")(fn)


class SkipIfNotRegistered:
    """@SkipIfNotRegistered()(message): asks for an operator of Caffe2, which torch no longer has."""

    def __call__(self, message):
        return unittest.skip(f"{message} (Caffe2 is not a part of torch any more)")


class SupportedDevices:
    """@SupportedDevices(["Ascend910B"]): skips on other SoCs, with their name."""

    def __init__(self, supported_devices: list[str]) -> None:
        if isinstance(supported_devices, str):
            raise TypeError(f'supported_devices must be a list of names such as ["Ascend910B"], got {supported_devices!r}')
        self.supported_devices = supported_devices

    def __call__(self, fn):
        @functools.wraps(fn)
        def run(*args, **kwargs):
            name = npu.get_device_name(0)
            family = name[:12] if name.startswith("Ascend910_") else name[:9] if name.startswith("Ascend950") else name[:10]
            if family not in self.supported_devices:
                raise unittest.SkipTest(f"runs on {', '.join(self.supported_devices)}; this is {name}")
            return fn(*args, **kwargs)

        return run


class SkipIfNotGteCANNVersion:
    """@SkipIfNotGteCANNVersion("8.3.RC1"): skips with older versions of a package of CANN, with the version there is."""

    def __init__(self, base_version, module="CANN"):
        if not npu.utils._version_key(base_version):
            raise ValueError(f'base_version must be a version such as "8.3.RC1", got {base_version!r}')
        if module not in npu.utils._PACKAGES:
            raise ValueError(f"module must be one of {', '.join(npu.utils._PACKAGES)}, got {module!r}")
        self.base_version, self.module = base_version, module

    def __call__(self, fn):
        @functools.wraps(fn)
        def run(*args, **kwargs):
            if not npu.utils._is_gte_cann_version(self.base_version, self.module):
                there = npu.utils.get_cann_version(self.module) or "of an unknown version"
                raise unittest.SkipTest(f"needs {self.module} {self.base_version} or later; this is {there}")
            return fn(*args, **kwargs)

        return run


class Baseline:
    """Numbers of earlier runs, by name, in a JSON file."""

    def __init__(self, baselineFile):
        self._file, self._lock, self._numbers = baselineFile, threading.Lock(), {}
        if os.path.exists(baselineFile):
            PathManager.check_directory_path_readable(baselineFile)
            with open(baselineFile) as file:
                self._numbers = json.load(file)

    def get_baseline(self, resourceId):
        return self._numbers.get(resourceId)

    def set_baseline(self, resourceId, baseline):
        with self._lock:
            self._numbers[resourceId] = baseline

    def save_baseline(self):
        with self._lock, open(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(self._numbers, file)


PerfBaseline = Baseline(PERF_BASELINE_FILE)


@atexit.register
def dump_baseline():
    """Writes PerfBaseline, with PERF_TEST_ENABLE=1."""
    if PERF_TEST_ENABLE:
        PerfBaseline.save_baseline()
