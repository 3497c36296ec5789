"""One test for each type and storage format: @instantiate_tests on a class, @Dtypes(...) and @Formats(...) on its tests."""

from __future__ import annotations

import functools
import inspect
import itertools

import torch


class Dtypes:
    """@Dtypes(torch.half, torch.float): the test's argument whose name contains "dtype" takes each of them."""

    def __init__(self, *args):
        if not args:
            raise RuntimeError("Dtypes needs a type")
        if wrong := [value for value in args if not isinstance(value, torch.dtype)]:
            raise RuntimeError(f"Dtypes takes torch types, but got {wrong[0]!r}")
        self.args = args

    def __call__(self, fn):
        fn.dtypes = self.args
        return fn


class Formats:
    """@Formats(0, 2, 29): the test's argument whose name contains "format" takes each of them."""

    def __init__(self, *args):
        if not args:
            raise RuntimeError("Formats needs the number of a storage format")
        self.args = args

    def __call__(self, fn):
        fn.formats = self.args
        return fn


def feed_data(func, new_name, *args, **kwargs):
    """A test without arguments that calls `func` with these."""

    @functools.wraps(func)
    def test(self):
        return func(self, *args, **kwargs)

    test.__name__ = new_name
    return test


def instantiate_tests(arg=None, **kwargs):
    """Replaces each test of a class that has Dtypes or Formats by one for each combination; `device` is given "npu".

    kwargs are accepted as by the official decorator, which does not read them either.
    """
    for name, function in list(vars(arg).items()):
        choices = {word: getattr(function, f"{word}s") for word in ("dtype", "format") if hasattr(function, f"{word}s")}
        if not choices:
            continue
        parameters = inspect.getfullargspec(function).args
        for values in itertools.product(*choices.values()):
            given = {"device": "npu"} if "device" in parameters else {}
            suffix = ""
            for word, value in zip(choices, values, strict=True):
                fitting = [parameter for parameter in parameters if word in parameter]
                if len(fitting) != 1:
                    raise RuntimeError(f"{name} must have one argument with {word!r} in its name, but has {fitting}")
                given[fitting[0]] = value
                suffix += "_" + str(value).removeprefix("torch.")
            setattr(arg, name + suffix, feed_data(function, name + suffix, **given))
        delattr(arg, name)
    return arg


def gen_op_input(testcase, func, op_info):
    """The types and formats that a test of an operator is called with."""
    types = getattr(func, "dtypes", None) or op_info.dtypesIfNPU
    if "test_variant_consistency_eager" in testcase:
        types = {torch.float32} if torch.float32 in op_info.dtypesIfNPU else {list(op_info.dtypesIfNPU)[-1]}
    return {"dtype": types, "npu_format": getattr(func, "formats", None) or op_info.formats}


def gen_ops_testcase(cls, func, name, keys, value, op_info):
    """Adds the test of an operator for one type and format to a class, with the operator's decorators."""
    given = dict(zip(keys, value, strict=True))
    test_name = "_".join([func.__name__, name, *(str(part).removeprefix("torch.") for part in value)])
    test = functools.partialmethod(func, op=op_info, **given)
    for decorator in op_info.get_decorators(cls.__name__, func.__name__, "cpu", value[0], {}):
        test = decorator(test)
    setattr(cls, test_name, test)


def instantiate_ops_tests(op_db):
    """Replaces each test of a class by one for each operator of a list, type and format."""

    def decorate(cls):
        for name in [name for name in dir(cls) if name.startswith("test_")]:
            function = getattr(cls, name)
            for op_info in op_db:
                choices = gen_op_input(name, function, op_info)
                for value in itertools.product(*choices.values()):
                    gen_ops_testcase(cls, function, op_info.name, choices.keys(), value, op_info)
            delattr(cls, name)
        return cls

    return decorate
