"""Where and how `import torch_npu`, and what a card or several need, is inserted into a converted source."""

import re

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

from torch_npu.migrate.edits import Edit, insert_line


def _is_docstring(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Expr) and isinstance(node.value, (cst.SimpleString, cst.ConcatenatedString))


def insert_import(wrapper: MetadataWrapper, specify_device: bool, present: bool, distributed: bool) -> list[Edit]:
    """`import torch_npu` after the first import of torch at the top of the file, or after its docstring."""
    module, spans = wrapper.module, wrapper.resolve(ByteSpanPositionProvider)
    newline = module.default_newline
    after, is_torch = None, False
    for index, statement in enumerate(module.body):
        if not isinstance(statement, cst.SimpleStatementLine):
            continue
        first = statement.body[0]
        code = cst.Module([]).code_for_node(first)
        if re.match(r"(import|from) torch\b", code):
            after, is_torch = statement, True
            break
        if re.match(r"from __future__", code) or (index == 0 and _is_docstring(first)):
            after = statement
    lines = [] if present else ["import torch_npu"]
    if specify_device or distributed:
        lines += [line for line in ("import os", "import torch", "import torch.distributed") if line != "import torch" or not is_torch]
    if distributed:
        lines += [
            'torch.npu.set_device(int(os.environ.get("LOCAL_RANK", 0)))',
            "if not torch.distributed.is_initialized():",
            '    torch.distributed.init_process_group("hccl")',
        ]
    elif specify_device:
        lines += ['torch.npu.set_device(int(os.environ.get("DEVICE_ID", 0)))']
    if not lines:
        return []
    text = module.code.encode()
    if after is None:
        start = spans[module.body[0]].start if module.body else len(text)
        start = text.rfind(b"\n", 0, start) + 1
        return [Edit(start, start, newline.join(lines) + newline, lines[0], "inserted")]
    return [insert_line(text, spans[after].start + spans[after].length, lines, newline, lines[0], "inserted")]
