"""Finds the uses of torch in a Python source with the standard library's parser.

A use is certain when an import says what a name is; a method, operator or builtin that a tensor may be the receiver of is
possible. Nothing is imported or run.
"""

import ast
import functools
import warnings
from dataclasses import dataclass
from typing import Any

import torch

# What Python calls for its operators and builtins when a tensor is involved.
OPERATORS: dict[type, tuple[str, ...]] = {
    ast.Add: ("__add__", "__radd__", "add"), ast.Sub: ("__sub__", "__rsub__", "sub"), ast.Mult: ("__mul__", "__rmul__", "mul"),
    ast.Div: ("__truediv__", "__rtruediv__", "__rdiv__", "div", "__div__"), ast.FloorDiv: ("__floordiv__", "__rfloordiv__"),
    ast.Mod: ("__mod__", "__rmod__", "remainder"), ast.Pow: ("__pow__", "__rpow__", "pow"),
    ast.MatMult: ("__matmul__", "__rmatmul__", "matmul"), ast.BitAnd: ("__and__", "__rand__"), ast.BitOr: ("__or__", "__ror__"),
    ast.BitXor: ("__xor__", "__rxor__"), ast.LShift: ("__lshift__", "__rlshift__"), ast.RShift: ("__rshift__", "__rrshift__"),
    ast.USub: ("__neg__", "neg"), ast.UAdd: ("__pos__", "positive"), ast.Invert: ("__invert__", "bitwise_not"),
    ast.Not: ("__bool__",), ast.Eq: ("__eq__", "eq"), ast.NotEq: ("__ne__", "ne"), ast.Lt: ("__lt__", "lt", "__gt__"),
    ast.LtE: ("__le__", "le", "__ge__"), ast.Gt: ("__gt__", "gt", "__lt__"), ast.GtE: ("__ge__", "ge", "__le__"),
    ast.In: ("__contains__",), ast.NotIn: ("__contains__",),
}  # fmt: skip
INPLACE = {ast.Add: "__iadd__", ast.Sub: "__isub__", ast.Mult: "__imul__", ast.Div: "__itruediv__", ast.FloorDiv: "__ifloordiv__",
           ast.Mod: "__imod__", ast.Pow: "__ipow__", ast.BitAnd: "__iand__", ast.BitOr: "__ior__", ast.BitXor: "__ixor__",
           ast.LShift: "__ilshift__", ast.RShift: "__irshift__", ast.MatMult: "__imatmul__"}  # fmt: skip
BUILTINS: dict[str, tuple[str, ...]] = {
    "len": ("__len__",), "abs": ("__abs__", "abs"), "float": ("__float__",), "int": ("__int__",), "bool": ("__bool__",),
    "complex": ("__complex__",), "round": ("round",), "divmod": ("__divmod__",), "pow": ("__pow__",), "reversed": ("__reversed__",),
    "hash": ("__hash__",), "sum": ("__radd__", "__iter__", "unbind"), "max": ("__gt__", "__bool__"), "min": ("__lt__", "__bool__"),
    "str": ("__repr__", "__format__"), "repr": ("__repr__",), "format": ("__format__",), "print": ("__repr__",),
    "tuple": ("__iter__", "unbind", "__len__"), "list": ("__iter__", "unbind", "__len__"), "zip": ("__iter__", "unbind"),
    "enumerate": ("__iter__", "unbind"), "iter": ("__iter__", "unbind"), "set": ("__iter__", "__hash__"), "map": ("__iter__", "unbind"),
    "sorted": ("__iter__", "__lt__"), "range": ("__index__",),
}  # fmt: skip


@functools.cache
def tensor_names() -> frozenset[str]:
    return frozenset(name for name in dir(torch.Tensor) if not name.startswith("__"))


@dataclass(frozen=True)
class Use:
    """`api` is a dotted name such as torch.nn.functional.relu or torch.Tensor.view.

    `rebound`: the file also assigns to the imported name (`optim = torch.optim.Adam(...)`), so that it may be something else.
    """

    api: str
    line: int
    end_line: int
    certain: bool
    rebound: bool = False


class Imports:
    """Local name -> dotted name. Imports inside functions count for the whole file."""

    def __init__(self, tree: ast.AST) -> None:
        self.names: dict[str, str] = {}
        self.packages: dict[str, int] = {}  # imported top-level package -> line
        self.assigned: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.assigned.add(node.id)
            elif isinstance(node, ast.arg):
                self.assigned.add(node.arg)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.split(".")[0]
                    self.packages.setdefault(top, node.lineno)
                    self.names[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                self.packages.setdefault(node.module.split(".")[0], node.lineno)
                for alias in node.names:
                    self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        for node in ast.walk(tree):  # relu = torch.nn.functional.relu
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                if isinstance(node.value, ast.Attribute) and (name := self.dotted(node.value)):
                    self.names.setdefault(node.targets[0].id, name)

    def dotted(self, node: ast.AST) -> str | None:
        if isinstance(node, ast.Attribute):
            owner = self.dotted(node.value)
            return f"{owner}.{node.attr}" if owner else None
        return self.names.get(node.id) if isinstance(node, ast.Name) else None


def depth(tree: ast.AST) -> int:
    """How deeply the nodes of a tree nest."""
    level, nodes = 0, [tree]
    while nodes:
        level, nodes = level + 1, [child for node in nodes for child in ast.iter_child_nodes(node)]
    return level


def parse(text: str | bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the analysed code's own making
        return ast.parse(text)


class _Collector:
    """Visits every node without recursion, as generated code nests deeper than Python's stack. A visit_X that returns True
    has dealt with the children too."""

    def __init__(self, imports: Imports) -> None:
        self.imports = imports
        self.uses: list[Use] = []

    def collect(self, tree: ast.AST) -> list[Use]:
        stack = [tree]
        while stack:
            node = stack.pop()
            visit = getattr(self, f"visit_{type(node).__name__}", None)
            if visit is None or not visit(node):
                stack += ast.iter_child_nodes(node)
        return self.uses

    def _add(self, node: Any, api: str, certain: bool) -> None:
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        rebound = certain and isinstance(root, ast.Name) and root.id in self.imports.assigned
        self.uses.append(Use(api, node.lineno, node.end_lineno or node.lineno, certain, rebound))

    def _tensor(self, node: ast.AST, names) -> None:
        for name in names:
            self._add(node, f"torch.Tensor.{name}", False)

    def visit_Attribute(self, node: ast.Attribute) -> bool:
        name = self.imports.dotted(node)
        if name is not None:
            is_torch = name.split(".")[0] == "torch"
            if is_torch:
                self._add(node, name, True)
            if node.attr in tensor_names() and (not is_torch or self.uses[-1].rebound):
                self._tensor(node, [node.attr])
            return True  # the parts of a dotted name are no uses of their own
        if node.attr in tensor_names():
            self._tensor(node, [node.attr])
        return False

    def visit_Name(self, node: ast.Name) -> None:
        name = self.imports.names.get(node.id, "")
        if name.startswith("torch.") and isinstance(node.ctx, ast.Load):
            self._add(node, name, True)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not isinstance(node.left, ast.Constant) or not isinstance(node.right, ast.Constant):
            self._tensor(node, OPERATORS[type(node.op)])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if not isinstance(node.operand, ast.Constant):
            self._tensor(node, OPERATORS[type(node.op)])

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._tensor(node, [INPLACE[type(node.op)], *OPERATORS[type(node.op)]])
        if isinstance(node.target, ast.Subscript):
            self._tensor(node, ["__getitem__", "__setitem__"])

    def visit_Compare(self, node: ast.Compare) -> None:
        for op in node.ops:
            self._tensor(node, OPERATORS.get(type(op), ()))

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._tensor(node, ["__getitem__" if isinstance(node.ctx, ast.Load) else "__setitem__"])

    def _truth(self, node) -> None:
        if not isinstance(node.test, ast.Constant):
            self._tensor(node.test, ["__bool__"])

    visit_If = visit_While = visit_IfExp = visit_Assert = _truth

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._tensor(node, ["__bool__"])

    def _iterates(self, node) -> None:
        self._tensor(node.iter, ["__iter__", "unbind", "__len__"])

    visit_For = visit_AsyncFor = _iterates

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._tensor(node.iter, ["__iter__", "unbind", "__len__"])

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, (ast.Tuple, ast.List)) and not isinstance(node.value, (ast.Tuple, ast.List)):
                self._tensor(node, ["__iter__", "unbind"])

    def visit_Starred(self, node: ast.Starred) -> None:
        self._tensor(node, ["__iter__", "unbind"])

    def visit_FormattedValue(self, node: ast.FormattedValue) -> None:
        if not isinstance(node.value, ast.Constant):
            self._tensor(node, ["__format__", "__repr__"])

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in BUILTINS and node.func.id not in self.imports.names:
            self._tensor(node, BUILTINS[node.func.id])
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "format" and node.args:
            self._tensor(node, ["__format__"])


def find_uses(tree: ast.AST, imports: Imports | None = None) -> list[Use]:
    return _Collector(imports or Imports(tree)).collect(tree)
