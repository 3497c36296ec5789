"""Modules that are looked for last, when nothing else on the path has them: `torchair` (torch_npu.dynamo.torchair, which the official
plugin also shows under this name) and `acl` (a part of CANN's Python interface, over this package, where CANN's own is not installed).
"""

import importlib
import importlib.abc
import importlib.util
import sys

_SOURCES = {"torchair": "torch_npu.dynamo.torchair", "acl": "torch_npu._acl"}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, path=None, target=None):
        head, dot, rest = fullname.partition(".")
        source = _SOURCES.get(head)
        if source is None or importlib.util.find_spec(source + dot + rest) is None:
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=True)

    def create_module(self, spec):
        head, dot, rest = spec.name.partition(".")
        return importlib.import_module(_SOURCES[head] + dot + rest)

    def exec_module(self, module):
        """The module was executed under its own name."""


def register() -> None:
    sys.meta_path.append(_Finder())
