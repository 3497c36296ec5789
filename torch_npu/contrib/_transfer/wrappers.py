"""Makes the objects that stand in for torch's: functions that rewrite arguments, classes that make another class's objects."""

import functools
import inspect
from collections.abc import Callable

from torch_npu.contrib._transfer import arguments, environment
from torch_npu.contrib._transfer.report import Row


class Parameter:
    """One word of table.ARGUMENTS: `name`, `name@position` or `name@position=default`."""

    def __init__(self, text: str) -> None:
        text, _, default = text.partition("=")
        self.name, _, position = text.partition("@")
        self.position = int(position) if position else None
        self.default = default or None
        self.rewrite = arguments.BY_NAME.get(self.name, arguments.device)

    def apply(self, args: tuple, kwargs: dict) -> tuple:
        """The positional arguments to use; keywords are changed in place."""
        if self.name in kwargs:
            kwargs[self.name] = self.rewrite(kwargs[self.name])
        elif self.position is not None and len(args) > self.position:
            value = args[self.position]
            changed = self.rewrite(value)
            if changed is not value:
                args = (*args[: self.position], changed, *args[self.position + 1 :])
        elif self.default is not None and arguments.enabled and len(args) == self.position:
            args = (*args, self.default)
        return args


def rewriting(original: Callable, spec: str, row: Row) -> Callable:
    """`original` with the parameters of `spec` rewritten."""
    parameters = [Parameter(text) for text in spec.split()]
    if len(parameters) > 1 or parameters[0].default is not None:
        return _rewriting_any(original, parameters, row)
    name, position, rewrite = parameters[0].name, parameters[0].position, parameters[0].rewrite

    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        if name in kwargs:
            value = kwargs[name]
            changed = rewrite(value)
            if changed is not value:
                kwargs[name] = changed
                row.uses += 1
        elif position is not None and len(args) > position:
            value = args[position]
            changed = rewrite(value)
            if changed is not value:
                args = (*args[:position], changed, *args[position + 1 :])
                row.uses += 1
        return original(*args, **kwargs)

    return wrapper


def _rewriting_any(original: Callable, parameters: list[Parameter], row: Row) -> Callable:
    """The general case; the one above is on the path of every tensor.to()."""

    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        before, values = args, tuple(kwargs.values())
        for parameter in parameters:
            args = parameter.apply(args, kwargs)
        if args is not before or any(new is not old for new, old in zip(kwargs.values(), values)):
            row.uses += 1
        return original(*args, **kwargs)

    return wrapper


def counting(original: Callable, row: Row) -> Callable:
    """A function of torch.npu as one of torch.cuda: takes "cuda:1" wherever it takes "npu:1", and counts its calls."""

    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        row.uses += 1
        environment.before_use()
        return original(*map(arguments.device, args), **{key: arguments.device(value) for key, value in kwargs.items()})

    return wrapper


class _StandIn(type):
    """The type of a stand-in class: it makes objects of `original`, and counts as `original` for isinstance and issubclass."""

    _original: type
    _parameter: Parameter
    _row: Row
    _stand_in: type

    def __call__(cls, *args, **kwargs):
        args = cls._parameter.apply(args, kwargs)
        cls._row.uses += 1
        return cls._original(*args, **kwargs) if cls is cls._stand_in else super().__call__(*args, **kwargs)

    def __instancecheck__(cls, instance) -> bool:
        return isinstance(instance, cls._original) if cls is cls._stand_in else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass) -> bool:
        return issubclass(subclass, cls._original) if cls is cls._stand_in else super().__subclasscheck__(subclass)


def stand_in(original: type, spec: str, row: Row) -> type:
    """A class that makes the objects of a class whose constructor cannot be changed, with `spec` rewritten."""
    body = {"__doc__": original.__doc__, "__module__": original.__module__, "__qualname__": original.__qualname__,
            "_original": original, "_parameter": Parameter(spec), "_row": row}  # fmt: skip
    meta = _StandIn if type(original) is type else type("_StandIn", (_StandIn, type(original)), {})
    cls = meta(original.__name__, (original,), body)
    cls._stand_in = cls
    return cls


def refusing(name: str, reason: str, row: Row) -> type:
    """A class whose call says why there is nothing to call. A class, because isinstance may be asked about it."""

    def __new__(cls, *args, **kwargs):
        row.uses += 1
        raise NotImplementedError(f"{name}: {reason}")

    return type(name.rpartition(".")[2], (), {"__new__": __new__, "__module__": name.rpartition(".")[0], "__doc__": reason})


def is_plain_function(value: object) -> bool:
    return inspect.isfunction(value) or inspect.isbuiltin(value)
