"""Tests as programs, for a client that has no pytest: programs.py runs each of these for "test:FOLDER/FILE:FUNCTION", once for every set of
parameters. Whether a test passes does not matter. Those that take fixtures are left out, and files that import what the client lacks.
"""

import importlib
import sys
import types
from inspect import signature
from itertools import product
from pathlib import Path

from programs import healthy, record

ROOT = Path(__file__).resolve().parents[2] / "test"
FILES = {
    "custom_ops": "test_atb test_atb_attention test_attention test_boxes test_caches test_few_rows test_gradients test_memory_ops test_mhc "
                  "test_moe test_row_loops test_sparse_attention test_vectors",
    "ops": "test_composed test_convolutions test_foreach test_layouts test_matmul test_out_arguments test_overlap test_repeated_reductions "
           "test_special test_sync_batch_norm test_triangular test_whole_losses",
    "contrib": "test_functions test_gradients_and_shapes test_modules",
}


def parametrize(names, values, **_):
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)

    def mark(function):
        sets = [dict(zip(names, value if len(names) > 1 else [value])) for value in values]
        function.sets = [*getattr(function, "sets", []), sets]
        return function

    return mark


class Mark:
    parametrize = staticmethod(parametrize)

    def __getattr__(self, name):
        return lambda *_, **__: lambda function: function


class Pytest(types.ModuleType):
    """What test files use when they are imported; in the tests, the first thing of it that is used ends them."""

    mark = Mark()

    @staticmethod
    def fixture(*given, **_):
        return given[0] if given and callable(given[0]) else lambda function: function

    @staticmethod
    def param(*values, **_):
        return values if len(values) > 1 else values[0]


def install():
    sys.modules.setdefault("pytest", Pytest("pytest"))


def load(folder, file):
    install()
    sys.path[:0] = [str(ROOT / folder), str(ROOT / "ops")]
    sys.modules.pop(file, None)  # folders have files of the same name
    try:
        return importlib.import_module(file)
    except (ImportError, AttributeError):
        return None


def names():
    modules = {f"{folder}/{file}": load(folder, file) for folder, files in FILES.items() for file in files.split()}
    return [f"{path}:{name}" for path, module in modules.items() if module for name in vars(module) if name.startswith("test_")]


def run(path, name):
    function = getattr(load(*path.split("/")), name)
    for i, chosen in enumerate(product(*getattr(function, "sets", []))):
        given = {key: value for part in chosen for key, value in part.items()}
        fixtures = set(signature(function).parameters) - set(given)
        if not fixtures and not record(f"test:{path}:{name}|{i}", ((), given), function, False):
            return False
    return healthy()
