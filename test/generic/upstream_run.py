"""Runs the device classes of one of torch's test files, unedited, on one device.

    python upstream_run.py FILE DEVICE REPORT [--share N] [--only LIST]

Called by upstream.py, a process for each file. REPORT gets a line of JSON when a test begins and one with its outcome, so that the caller
knows what a process that ended was at. Tests that REPORT has already are left out.
"""

import argparse
import importlib
import json
import os
import re
import signal
import sys
import time
import unittest
import zlib
from pathlib import Path

SUFFIX = {"npu": "(PRIVATEUSE1|NPU)", "cpu": "CPU"}  # torch takes the second name once a class has been set up
SECONDS = 180  # for one test


class TimedOut(BaseException):
    """Not an Exception, which a test may take for the one that it expects."""


class Report(unittest.TestResult):
    def __init__(self, file, wait) -> None:
        super().__init__()
        self.file = file
        self.wait = wait
        self.outcome = ("passed", "")

    def line(self, **values) -> None:
        print(json.dumps(values), file=self.file, flush=True)

    def startTest(self, test) -> None:
        super().startTest(test)
        self.outcome, self.began = ("passed", ""), time.monotonic()
        self.line(start=test.id())
        signal.alarm(SECONDS)

    def stopTest(self, test) -> None:
        outcome, detail = self.outcome
        try:
            self.wait()
        except BaseException as error:  # what the card reports late belongs to this test, not to the next one
            if outcome == "passed":
                outcome, detail = "failed", f"late {type(error).__name__}: {error}"[:600]
        signal.alarm(0)
        self.line(id=test.id(), outcome=outcome, detail=detail, seconds=round(time.monotonic() - self.began, 2))
        super().stopTest(test)

    def addError(self, test, err) -> None:
        if not hasattr(test, "_testMethodName"):  # setUpClass: none of the class ran
            self.line(id=f"{test}", outcome="failed", detail=f"{err[1]}"[:600], seconds=0)
            return
        self.outcome = ("failed", f"{err[0].__name__}: {err[1]}"[:600])

    addFailure = addError

    def addSkip(self, test, reason) -> None:
        self.outcome = ("skipped", reason)

    def addExpectedFailure(self, test, err) -> None:
        self.outcome = ("passed", "expected failure")

    def addUnexpectedSuccess(self, test) -> None:
        self.outcome = ("failed", "unexpected success")

    def addSubTest(self, test, subtest, err) -> None:
        if err is not None:
            self.addError(test, err)


def cases(suite):
    for test in suite:
        yield from cases(test) if isinstance(test, unittest.TestSuite) else (test,)


def chosen(module, device: str, share: int):
    """Tests of the classes that torch made for the device; every share-th, by their names."""
    from torch.testing._internal.common_utils import TestCase

    for name, value in sorted(vars(module).items()):
        if isinstance(value, type) and issubclass(value, unittest.TestCase) and re.search(rf"{SUFFIX[device]}$", name):
            for method in ("setUp", "tearDown"):
                if "__class__" in getattr(value, method).__code__.co_names:  # super(self.__class__, self), which now finds itself
                    setattr(value, method, getattr(TestCase, method))
            for test in cases(unittest.defaultTestLoader.loadTestsFromTestCase(value)):
                if zlib.crc32(neutral(test.id()).encode()) % share == 0:
                    yield test


def neutral(name: str) -> str:
    """The name of a test without the device's: that of its twin on another device."""
    case, _, method = name.rpartition(".")
    case = re.sub(r"(PRIVATEUSE1|NPU|CPU)$", "", case.rpartition(".")[2])
    return f"{case}.{re.sub('_(npu|cpu|privateuse1)(?=_|$)', '', method)}"


# What torch's test utilities had when the files were written, and what it did on a machine without CUDA; of their lists, what they
# have now.
GONE = {
    "torch.testing._internal.common_cuda": {"tf32_is_not_fp32": lambda _: lambda: False},
    "torch.testing._internal.common_methods_invocations": {"binary_ufuncs_and_refs": lambda module: module.binary_ufuncs},
    "torch.testing._internal.common_mkldnn": {"bf32_on_and_off": lambda _: lambda *_: lambda test: test},
    "torch.testing._internal.common_nn": {"new_module_tests": lambda _: []},
    "torch.nn.attention.flex_attention": {"create_nested_block_mask": lambda _: None},
}


def load(name: str):
    try:
        importlib.import_module("torchvision")
    except Exception:  # of another build of torch it raises RuntimeError, for which torch's test utilities are not prepared
        sys.modules["torchvision"] = None  # type: ignore[assignment]
    for path, names in GONE.items():
        module = importlib.import_module(path)
        for gone, meaning in names.items():
            vars(module).setdefault(gone, meaning(module))
    return importlib.import_module(name)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("device", choices=SUFFIX)
    parser.add_argument("report", type=Path)
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--only", type=Path)
    options = parser.parse_args()
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "privateuse1" if options.device == "npu" else "cpu"
    folder = next(parent for parent in options.file.resolve().parents if parent.name == "test")
    sys.path[:0] = [str(options.file.resolve().parent), str(folder), str(folder.parent)]
    os.chdir(folder)
    sys.argv = [str(options.file)]
    import torch  # after the variable above, which it may read

    module = load(options.file.stem)

    done = {json.loads(line).get("id") for line in options.report.read_text().splitlines()} if options.report.exists() else set()
    only = set(json.loads(options.only.read_text())) if options.only else None
    tests = [test for test in chosen(module, options.device, options.share)
             if test.id() not in done and (only is None or neutral(test.id()) in only)]

    def ring(*_):
        raise TimedOut(f"no end after {SECONDS} s")

    signal.signal(signal.SIGALRM, ring)
    with options.report.open("a") as file:
        result = Report(file, torch.npu.synchronize if options.device == "npu" else lambda: None)
        unittest.TestSuite(tests).run(result)
        result.line(end=True)
    os._exit(0)  # what the tests have left behind is of no interest


if __name__ == "__main__":
    main()
