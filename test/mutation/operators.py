"""Mutants of a Python source: what the file would be with one small mistake. mutants(text) lists all, is_valid says which can be parsed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS = {ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Is: "is not", ast.IsNot: "is",
               ast.In: "not in", ast.NotIn: "in"}
# Functions that do not tell their first two arguments apart: to exchange these is no mistake.
SYMMETRIC = {"equal", "max", "maximum", "min", "minimum", "transpose"}
ARITHMETIC = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "+", ast.BitAnd: "|", ast.BitOr: "&"}


@dataclass(frozen=True)
class Mutant:
    line: int
    function: str  # the outermost function or class around it, or ""
    before: str
    after: str
    text: str  # of the whole file
    where: str  # the function, the line's code and the column in it: names the place when lines move

    def __str__(self) -> str:
        return f"{self.line}: {shorten(self.before)} -> {shorten(self.after)}"


def shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) < 60 else text[:57] + "..."


class Source:
    def __init__(self, text: str):
        self.text, self.starts = text, [0]
        for line in text.encode().splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: ast.AST) -> str:
        begin, end = self.span(node)
        return self.text.encode()[begin:end].decode()

    def with_operator(self, node: ast.AST, left: ast.AST, operator: str, right: ast.AST) -> str:
        """The code of a node with two operands and another operator between them; parentheses around the operands stay."""
        data, (begin, end), left_end, right_begin = self.text.encode(), self.span(node), self.span(left)[1], self.span(right)[0]
        closing, opening = re.fullmatch(rb"([\s)]*).*?([\s(]*)", data[left_end:right_begin], re.DOTALL).groups()
        return f"({(data[begin:left_end] + closing).decode()}{operator}{(opening + data[right_begin:end]).decode()})"

    def replaced(self, node: ast.AST, code: str) -> str:
        begin, end = self.span(node)
        data = self.text.encode()
        return (data[:begin] + code.encode() + data[end:]).decode()


def changes(node: ast.AST, source: Source) -> Iterator[tuple[ast.AST, str]]:
    """(node to replace, new code) of the mistakes that can be made in one node itself."""
    of = source.of
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        yield node, source.with_operator(node, node.left, COMPARISONS[type(node.ops[0])], node.comparators[0])
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield node, source.with_operator(node, node.left, ARITHMETIC[type(node.op)], node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node, f"({of(node.operand)})"
    elif isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        yield node, "(" + word.join(f"({of(value)})" for value in node.values) + ")"
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield node.test, f"(not ({of(node.test)}))"
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        yield node, str(not node.value) if isinstance(node.value, bool) else repr(node.value + 1)
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield node, "return None"
    elif isinstance(node, (ast.AugAssign, ast.Raise)) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield node, "pass"
    elif isinstance(node, ast.Call) and len(node.args) > 1 and not any(isinstance(a, ast.Starred) for a in node.args[:2]):
        first, second = node.args[:2]
        if of(first) != of(second) and of(node.func).rpartition(".")[2] not in SYMMETRIC:
            between = source.text.encode()[source.span(first)[1]: source.span(second)[0]].decode()
            begin, end = source.span(first)[0], source.span(second)[1]
            outer = ast.Expr(lineno=0)  # a place from the first argument to the second
            outer.lineno, outer.col_offset, outer.end_lineno, outer.end_col_offset = (
                first.lineno, first.col_offset, second.end_lineno, second.end_col_offset)
            assert source.span(outer) == (begin, end)
            yield outer, of(second) + between + of(first)


def walk(node: ast.AST, function: str = "") -> Iterator[tuple[ast.AST, str]]:
    """Nodes with code in them: neither annotations nor what only type checkers and readers see."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.keyword) and child.arg == "strict":  # of zip, for who reads: lengths that are one
                continue
            if isinstance(child, ast.AST) and not isinstance(child, (ast.Import, ast.ImportFrom, ast.JoinedStr)):
                inside = function or getattr(child, "name", "") if isinstance(child, (ast.FunctionDef, ast.ClassDef)) else function
                yield child, inside
                yield from walk(child, inside)


def mutants(text: str) -> list[Mutant]:
    source, lines = Source(text), text.splitlines()

    def where(place: ast.AST, function: str) -> str:
        line = lines[place.lineno - 1]
        return f"{function}: {line.strip()} [{place.col_offset - (len(line) - len(line.lstrip()))}]"

    return [Mutant(place.lineno, function, source.of(place), code, source.replaced(place, code), where(place, function))
            for node, function in walk(ast.parse(text)) for place, code in changes(node, source)]


def is_valid(mutant: Mutant) -> bool:
    try:
        ast.parse(mutant.text)
    except SyntaxError:
        return False
    return True
