"""The default arguments in test/python/official_defaults.txt are those of the official wheel's public functions and classes.

`python defaults.py` with the official wheel (in the environment that ci/official.sh sets up) writes the file anew.
"""

import ast
import importlib
import inspect
from pathlib import Path

TEST = Path(__file__).resolve().parent.parent
FILE = TEST / "python/official_defaults.txt"


def source(value):
    """What a default looks like in a source, None if it cannot be written down."""
    try:
        return ast.unparse(ast.parse(repr(value), mode="eval"))
    except SyntaxError:
        return None


def defaults(function):
    """{parameter: source} of what a call may leave out."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    found = {p.name: source(p.default) for p in parameters if p.default is not p.empty}
    return {name: text for name, text in found.items() if text is not None}


def parsed(line):
    """A line of the file, "module.name(parameter=default, ...)", as (name, {parameter: source})."""
    call = ast.parse(line, mode="eval").body
    return ast.unparse(call.func), {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}


def resolved(name):
    """What a dotted name stands for, None if there is nothing of that name."""
    parts, found = name.split("."), None
    for i, part in enumerate(parts):
        try:
            found = getattr(found, part) if i else importlib.import_module(part)
        except AttributeError:
            try:
                found = importlib.import_module(".".join(parts[: i + 1]))
            except ImportError:
                return None
    return found


def recorded():
    return dict(parsed(line) for line in FILE.read_text().splitlines() if not line.startswith("#"))


def public():
    """Functions, classes and their methods that the modules with a file in this repository have in the installed wheel, by name."""
    package, found = TEST.parent / "torch_npu", {}
    for file in sorted(package.rglob("*.py")):
        if "transfer" in str(file):
            continue  # importing it changes torch
        path = file.relative_to(package.parent).with_suffix("")
        module = resolved(".".join(path.parts[:-1] if path.name == "__init__" else path.parts))
        for name, value in sorted(vars(module).items()) if inspect.ismodule(module) else ():
            if name.startswith("_") or not (getattr(value, "__module__", None) or "").startswith("torch_npu"):
                continue
            if inspect.isfunction(value) or inspect.isclass(value):
                found.setdefault(value, f"{module.__name__}.{name}")
            if inspect.isclass(value):
                for method, function in vars(value).items():
                    if inspect.isfunction(function) and not method.startswith("_"):
                        found.setdefault(function, f"{module.__name__}.{name}.{method}")
    return {name: value for value, name in found.items()}


def check_recorded_defaults():
    for name, expected in recorded().items():
        assert defaults(resolved(name)) == expected, name


def main():
    head = [line for line in FILE.read_text().splitlines() if line.startswith("#")]
    rows = {name: defaults(value) for name, value in public().items()}
    calls = [f"{name}({', '.join(f'{k}={v}' for k, v in found.items())})" for name, found in sorted(rows.items()) if found]
    FILE.write_text("\n".join([*head, *calls]) + "\n")


if __name__ == "__main__":
    main()
