"""Rewrites one Python source from CUDA to npu. libcst parses it; the result is a list of edits, so formatting stays.

Needs libcst (pip install "torch_npu[migrate]"). See cuda_names.py for what becomes what.
"""

import re
import types
from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst
import torch
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper, ParentNodeProvider

from torch_npu.contrib._transfer import table
from torch_npu.migrate import cuda_names, project
from torch_npu.migrate.edits import Edit, apply, changed_lines, line_of
from torch_npu.migrate.findings import FileResult, Finding, Kind
from torch_npu.migrate.insertion import insert_import
from torch_npu.migrate.options import Options

# Text that is no device although it says "cuda": names of options and of attributes.
_NOT_A_DEVICE_KEYWORDS = {"dest", "name", "help", "description", "key", "metavar", "prog", "title", "label"}
_NAME_FUNCTIONS = {"getattr", "hasattr", "setattr", "delattr", "print", "open"}

_RELEVANT = re.compile("cuda|nccl|amp_C|GradScaler|autocast", re.IGNORECASE)  # nothing else is ever changed


def convert_source(source: bytes, path: str, options: Options | None = None, distributed: bool = False) -> FileResult:
    """Converts one file. Raises what libcst raises for a source that is not Python 3."""
    code, encoding = project.decode(source)
    if not distributed and not _RELEVANT.search(code):
        return FileResult(path, code, code, data=source)
    module = cst.parse_module(code)
    text = code.encode()  # spans count bytes of UTF-8
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    visitor = _Visitor(wrapper, path)
    wrapper.visit(visitor)
    edits, options = visitor.edits, options or Options()
    if distributed:
        from torch_npu.migrate.distributed import edits_for_distributed

        edits += edits_for_distributed(wrapper, options.target_model)
    if edits:
        edits = [*insert_import(wrapper, options.specify_device, visitor.imports_torch_npu, distributed), *edits]
        # libcst drops blanks at the very end of some files; up to there its text is the source's.
        last = max(edit.end for edit in edits)
        if module.code.encode()[:last] != text[:last]:
            raise ValueError("the source cannot be written back byte for byte")
    after = apply(text, edits).decode()
    cst.parse_module(after)  # what is written always parses
    findings = visitor.findings + [
        Finding(path, line_of(text, edit.start), line_of(text, max(edit.start, edit.end - 1)), edit.api, edit.tip, Kind.CHANGE)
        for edit in sorted(edits)
    ]
    return FileResult(path, code, after, sorted(findings), data=after.encode(encoding), changed_lines=changed_lines(text, edits))


@dataclass
class _Imports:
    """Local name -> dotted name of what it was imported as."""

    names: dict[str, str] = field(default_factory=dict)

    def dotted(self, node: cst.BaseExpression) -> str | None:
        if isinstance(node, cst.Attribute):
            owner = self.dotted(node.value)
            return f"{owner}.{node.attr.value}" if owner else None
        return self.names.get(node.value) if isinstance(node, cst.Name) else None


def _code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


class _Visitor(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (ByteSpanPositionProvider, ParentNodeProvider)

    def __init__(self, wrapper: MetadataWrapper, path: str) -> None:
        super().__init__()
        self.path = path
        self.edits: list[Edit] = []
        self.findings: list[Finding] = []
        self.imports, self.imports_torch_npu = _Imports(), False
        self.spans = wrapper.resolve(ByteSpanPositionProvider)
        self.parents = wrapper.resolve(ParentNodeProvider)
        self.text = wrapper.module.code.encode()
        self.dict_keys = _dict_keys(wrapper.module)
        self.skip: set[int] = set()  # nodes that a larger edit covers

    # -- helpers

    def _replace(self, node: cst.CSTNode, text: str, api: str, tip: str) -> None:
        span = self.spans[node]
        self.edits.append(Edit(span.start, span.start + span.length, text, api, tip))

    def _find(self, kind: Kind, node: cst.CSTNode, api: str, tip: str) -> None:
        span = self.spans[node]
        first, last = line_of(self.text, span.start), line_of(self.text, span.start + max(span.length - 1, 0))
        self.findings.append(Finding(self.path, first, last, api, tip, kind))

    # -- imports

    def visit_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            name = _code(alias.name)
            self.imports_torch_npu |= name.split(".")[0] == "torch_npu"
            if alias.asname:
                self.imports.names[_code(alias.asname.name)] = name
            else:
                self.imports.names[name.split(".")[0]] = name.split(".")[0]
            if name in cuda_names.REMOVED_IMPORTS and len(node.names) == 1:
                self._replace(node, "pass", f"import {name}", f"{name} is a CUDA extension; removed")
            elif name == "torch.cuda" or name.startswith("torch.cuda."):
                self._module(alias.name, name)
        self._skip_children(node)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        module = _code(node.module) if node.module else ""
        self.imports_torch_npu |= module.split(".")[0] == "torch_npu" and not node.relative
        if node.relative or isinstance(node.names, cst.ImportStar):
            self._skip_children(node)
            return
        is_cuda = module == "torch.cuda" or module.startswith("torch.cuda.")
        missing = set()
        for alias in node.names:
            name = _code(alias.name)
            local = _code(alias.asname.name) if alias.asname else name
            self.imports.names[local] = f"{module}.{name}"
            if module == "torch" and name == "cuda":
                text = "npu" if alias.asname else "npu as cuda"
                self._replace(alias.name, text, "torch.cuda", "torch.npu")
            elif is_cuda and cuda_names.on_npu(f"{module}.{name}") is None:
                missing.add(f"{module}.{name}")
        if missing:
            self._cannot_split(node.names, module, missing)
        elif is_cuda and node.module is not None:
            self._module(node.module, module)
        self._skip_children(node)

    def _cannot_split(self, names: Sequence[cst.ImportAlias], module: str, missing: set[str]) -> None:
        """One name that npu lacks keeps the whole import as it is: the others are named too."""
        for alias in names:
            name = f"{module}.{_code(alias.name)}"
            apart = f"import it from {cuda_names.on_npu(module)}, apart from the others"
            self._find(Kind.UNSUPPORTED, alias, name, cuda_names.why_not(name) if name in missing else apart)

    def _module(self, node: cst.BaseExpression, name: str) -> None:
        ours, part = cuda_names.on_npu(name), _cuda_part(node)
        if ours is None or part is None:
            self._find(Kind.UNSUPPORTED, node, name, cuda_names.why_not(name))
        else:
            self._replace(part, "npu", name, ours)

    def _skip_children(self, node: cst.CSTNode) -> None:
        stack = list(node.children)
        while stack:
            child = stack.pop()
            self.skip.add(id(child))
            stack += child.children

    # -- names

    def visit_Attribute(self, node: cst.Attribute) -> None:
        if id(node) in self.skip:
            return
        name = self.imports.dotted(node)
        if name and name.startswith("torch.cuda") and not name.startswith("torch.cuda_"):
            self._torch_cuda(node, name)
        elif name in cuda_names.ATTRIBUTES:
            if replacement := cuda_names.ATTRIBUTES[name]:
                self._replace(node.attr, replacement, name, name.replace("CUDA", replacement))
            else:
                self._replace(node, '"hccl"', name, '"hccl"')
                self._skip_children(node)
        elif name in ("torch.Tensor.cuda", "torch.nn.Module.cuda"):
            self._replace(node.attr, "npu", name, name.replace("cuda", "npu"))
        elif node.attr.value == "is_cuda":
            self._replace(node.attr, "is_npu", "is_cuda", "is_npu")

    def _torch_cuda(self, node: cst.Attribute, name: str) -> None:
        """The longest chain torch.cuda.a.b is seen first; what lies inside it is done with it."""
        self._skip_children(node)
        target, named = cuda_names.on_npu(name), node
        while target is None and name.count(".") > 2 and cuda_names.on_npu(name.rpartition(".")[0]) and _is_object(name):
            # An attribute of an object, for example torch.cuda.Stream.wait_event.
            name, named = name.rpartition(".")[0], cst.ensure_type(named.value, cst.Attribute)
            target = cuda_names.on_npu(name)
        if target is None:
            self._find(Kind.UNSUPPORTED, node, name, cuda_names.why_not(name))
            return
        part = _cuda_part(node, self.imports)
        if name.endswith("Tensor") and self._is_argument_of_type(node):
            self._replace(node, f'"{target}"', name, f'"{target}"')  # .type() knows the npu's types by name only
        elif part is not None:
            self._replace(part, "npu", name, target)
            if name in table.RENAMED:
                self._replace(named.attr, table.RENAMED[name], name, target)

    def _is_argument_of_type(self, node: cst.CSTNode) -> bool:
        call = self.parents.get(self.parents[node])
        return isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "type"

    def _default_tensor_type(self, node: cst.Call, name: str) -> None:
        """The npu has no default tensor type: its dtype and device are set apart."""
        value = node.args[0].value if len(node.args) == 1 else None
        kind = value.raw_value if isinstance(value, cst.SimpleString) else self.imports.dotted(value) if value else None
        match = re.fullmatch(r"torch\.cuda\.(\w+)Tensor", kind or "")
        dtype = match and {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16"}.get(match.group(1))
        if dtype and isinstance(node.func, cst.Attribute):
            module = _code(node.func.value)
            text = f'({module}.set_default_dtype({module}.{dtype}), {module}.set_default_device("npu"))'
            self._replace(node, text, name, 'torch.set_default_dtype() and torch.set_default_device("npu")')
            self._skip_children(node)

    def visit_Call(self, node: cst.Call) -> None:
        name = self.imports.dotted(node.func)
        if name == "torch.set_default_tensor_type":
            self._default_tensor_type(node, name)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "cuda" and name != "torch.cuda":
            self._replace(node.func.attr, "npu", ".cuda()", ".npu()")
            self.skip.add(id(node.func))
        if name in cuda_names.CALLS:
            self._call(node, name)
        if name == "torch.cuda.get_device_capability":  # None on npu, which no pair compares with
            span, tip = self.spans[node], "(torch.npu.get_device_capability() or (0, 0))"
            self.edits.append(Edit(span.start, span.start, "(", name, tip))
            self.edits.append(Edit(span.start + span.length, span.start + span.length, " or (0, 0))", name, tip))

    def _call(self, node: cst.Call, name: str) -> None:
        ours, argument = cuda_names.CALLS[name]
        parameter = cuda_names.DEVICE_PARAMETER.get(name)
        given = [arg for arg in node.args if arg.keyword is None or arg.keyword.value == parameter]
        if parameter is None and node.args or parameter and given:
            return
        last = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        if ours != name:
            if isinstance(node.func, cst.Name):
                self._find(Kind.UNSUPPORTED, node, name, f"write {ours}({argument})")
                return
            self._replace(last, ours.rpartition(".")[2], name, f"{ours}({argument})")
        opening = self.text.index(b"(", self.spans[last].start) + 1
        separator = ", " if node.args else ""
        self.edits.append(Edit(opening, opening, argument + separator, name, f"{ours}({argument})"))

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """A method named cuda is called as .npu() from now on. A property of that name is read as .cuda, which stays."""
        parent = self.parents.get(self.parents[node])
        decorators = [_code(decorator.decorator) for decorator in node.decorators]
        is_property = any("property" in text or text.startswith("cuda.") for text in decorators)
        if node.name.value == "cuda" and isinstance(parent, cst.ClassDef) and not is_property:
            self._replace(node.name, "npu", "def cuda", "def npu")

    # -- text

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        value = node.raw_value
        replacement = cuda_names.DISPATCH_KEYS.get(value) if self._registers(node) else cuda_names.string_on_npu(value)
        if replacement is None or id(node) in self.skip or "b" in node.prefix or not self._is_device(node, value):
            return
        start = self.spans[node].start + len((node.prefix + node.quote).encode())
        self.edits.append(Edit(start, start + len(value.encode()), replacement, f'"{value}"', f'"{replacement}"'))

    def _registers(self, node: cst.SimpleString) -> bool:
        """Whether a text is an argument of Library(...) or .impl(...)."""
        argument = self.parents.get(node)
        call = self.parents.get(argument) if isinstance(argument, cst.Arg) else None
        function = call.func if isinstance(call, cst.Call) else None
        name = function.attr if isinstance(function, cst.Attribute) else function
        return node.raw_value in cuda_names.DISPATCH_KEYS and isinstance(name, cst.Name) and name.value in cuda_names.REGISTERING

    def visit_FormattedStringText(self, node: cst.FormattedStringText) -> None:
        """f"cuda:{rank}": only the beginning of the text can be a device."""
        parent = self.parents.get(node)
        if isinstance(parent, cst.FormattedString) and parent.parts[0] is node and re.match(r"cuda:$", node.value):
            self._replace(node, "npu:", 'f"cuda:{}"', 'f"npu:{}"')

    def _is_device(self, node: cst.SimpleString, value: str) -> bool:
        parent = self.parents.get(node)
        if isinstance(parent, cst.Expr):  # a docstring, or text that nobody reads
            return False
        if isinstance(parent, (cst.Index, cst.SubscriptElement)):
            return value in self.dict_keys or value.startswith(("CUDA_", "PYTORCH_CUDA_"))
        if isinstance(parent, cst.Arg):
            if parent.keyword is not None and parent.keyword.value in _NOT_A_DEVICE_KEYWORDS:
                return False
            call = self.parents.get(parent)
            function = call.func if isinstance(call, cst.Call) else None
            if isinstance(call, cst.Call) and isinstance(function, cst.Name) and function.value in _NAME_FUNCTIONS:
                return function.value in ("getattr", "hasattr") and self.imports.dotted(call.args[0].value) == "torch"
        return True


def _is_object(name: str) -> bool:
    """Whether the owner of the last part is no module, so that the last part is an attribute of an object."""
    owner: object = torch.cuda
    for part in name.split(".")[2:-1]:
        owner = getattr(owner, part, None)
    return not isinstance(owner, types.ModuleType)


def _cuda_part(node: cst.BaseExpression, imports: _Imports | None = None) -> cst.Name | None:
    """The word `cuda` of torch.cuda.x. None where it is not written out, as after `from torch import cuda`."""
    while isinstance(node, cst.Attribute):
        if node.attr.value == "cuda" and (imports is None or imports.dotted(node.value) == "torch"):
            return node.attr
        node = node.value
    return None


def _dict_keys(module: cst.Module) -> set[str]:
    found = set()

    class Keys(cst.CSTVisitor):
        def visit_DictElement(self, node: cst.DictElement) -> None:
            if isinstance(node.key, cst.SimpleString):
                found.add(node.key.raw_value)

    module.visit(Keys())
    return found
