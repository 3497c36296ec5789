"""Runs a function right after the import of a module, so that what nobody imports costs nothing.

For modules that have no registration call of their own, or whose call sits in a module that takes seconds to import.
"""

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType

_waiting: dict[str, list[Callable[[ModuleType], object]]] = {}


def after_import(name: str, function: Callable[[ModuleType], object]) -> None:
    """Calls function(module) now if the module is imported, else as soon as it is."""
    if name in sys.modules:
        function(sys.modules[name])
    else:
        _waiting.setdefault(name, []).append(function)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname not in _waiting:
            return None
        functions = _waiting.pop(fullname)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            for function in functions:
                function(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())
