"""No public name does nothing in silence: an argument that is not read, or a constant for an answer, is in its documentation."""

import ast
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "torch_npu"
REASONS = yaml.safe_load((ROOT / "test/expect/no_ops.yaml").read_text())
COMPILED = ("softnpu", "include", "lib")  # what an editable install links into the package


def functions(tree, path, inside=()):
    """(name, function, docstrings that speak of it) of every public function that is not inside of another one."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from functions(node, path, (*inside, node))
        elif isinstance(node, ast.FunctionDef):
            names = [*(each.name for each in inside), node.name]
            public = not any(name.startswith("_") and name != "__init__" for name in names)
            if public and not any(part.startswith("_") and part != "__init__.py" for part in path.parts):
                yield ".".join(names), node, " ".join(ast.get_docstring(each) or "" for each in (node, *inside))


def silent(function, words):
    """What of a function is neither read nor spoken of in `words`."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    if any(isinstance(statement, ast.Raise) for statement in body):
        return None
    arguments = function.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *filter(None, (arguments.vararg, arguments.kwarg))]
    read = {node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    unread = [each.arg for each in given if each.arg not in {*read, "self", "cls", "ctx"} and not each.arg.startswith("_")]
    if "locals" in read:
        unread = []
    constant = all(isinstance(statement, (ast.Pass, ast.Expr)) or isinstance(statement, ast.Return)
                   and isinstance(statement.value, (ast.Constant, type(None))) for statement in body)
    constant = constant and not any(isinstance(node, ast.Call) for statement in body for node in ast.walk(statement))
    if constant and not words:
        return "does nothing"
    unread = [name for name in unread if name not in words]
    return f"does not read {', '.join(unread)}" if unread and not (constant and words) else None


def found():
    rows = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        path = path.relative_to(PACKAGE)
        if path.parts[0] in COMPILED:
            continue
        for name, function, words in functions(ast.parse((PACKAGE / path).read_text()), path):
            if problem := silent(function, words):
                rows[f"{path}: {name}"] = problem
    return rows


def test_nothing_public_does_nothing_in_silence():
    assert {row: problem for row, problem in found().items() if row not in REASONS} == {}


def test_reasons_are_of_today():
    assert set(REASONS) - set(found()) == set()


@pytest.mark.parametrize("source, problem", [
    ("def f(a): return a", None),
    ("def f(a): return 1", "does nothing"),
    ("def f(a): 'a is ignored'; return 1", None),
    ("def f(a, b): return a", "does not read b"),
    ("def f(a, b):\n    'b is not read'\n    return a", None),
    ("def f(a): raise ValueError('no')", None),
    ("def f(): pass", "does nothing"),
    ("def f(a): g()", "does not read a"),
])
def test_the_scan_sees_them(source, problem):
    (function,) = ast.parse(source).body
    assert silent(function, ast.get_docstring(function) or "") == problem
