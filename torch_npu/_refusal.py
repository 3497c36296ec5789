"""Names of the official plugin that exist here and refuse: calling one raises a sentence with the reason and the way out.

tools/surface/measure.py finds them by `__refusal__`, and docs/api/surface.md lists them.
"""

import sys
from collections.abc import Mapping
from types import ModuleType


def refuse(name: str, reason: str, parameters: str = "*args, **kwargs"):
    """A function that raises. `parameters` is the official list, so that help() and inspect show what would be called."""
    sentence = f"{name} is not supported: {reason}"
    scope: dict = {"sentence": sentence}
    exec(f"def function({parameters}):\n    raise NotImplementedError(sentence)", scope)  # noqa: S102 (our own text)
    function = scope["function"]
    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"Refused: {reason}."
    function.__refusal__ = sentence
    return function


def refuse_class(name: str, reason: str) -> type:
    """A class that cannot be made, for names that programs use in isinstance() or as annotations."""
    sentence = f"{name} is not supported: {reason}"

    def __new__(cls, *args, **kwargs):
        raise NotImplementedError(sentence)

    return type(name.rpartition(".")[2], (), {"__new__": __new__, "__refusal__": sentence, "__doc__": f"Refused: {reason}."})


def refusing_getattr(module: str, reasons: Mapping[str, str], other: str = ""):
    """A module's __getattr__: names of `reasons` (and, with `other`, all public ones) say why they are not there."""

    def __getattr__(name: str):
        reason = reasons.get(name) or (other if not name.startswith("__") else "")
        if reason:
            raise AttributeError(f"{module}.{name} is not supported: {reason}")
        raise AttributeError(f"module '{module}' has no attribute '{name}'")

    return __getattr__


def alias_modules(package: str, modules: Mapping[str, ModuleType]) -> None:
    """Lets `import package.name` find modules that have another name here."""
    for name, module in modules.items():
        sys.modules.setdefault(f"{package}.{name}", module)
