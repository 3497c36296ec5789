"""TorchScript compiles the source of a function, where redirected Python functions do not count: the source is redirected."""

import ast
import functools

from torch_npu.contrib._transfer import arguments


class _Source(ast.NodeTransformer):
    def visit_Constant(self, node):
        changed = arguments.device(node.value) if isinstance(node.value, str) else node.value
        return node if changed is node.value else ast.copy_location(ast.Constant(changed), node)

    def visit_Call(self, node):
        """x.cuda(...) becomes x.to("npu"): TorchScript's own .cuda() does not ask Python."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda" and not node.args and not node.keywords:
            node.func.attr = "to"
            node.args = [ast.copy_location(ast.Constant("npu"), node)]
        return node

    def visit_Attribute(self, node):
        """x.is_cuda becomes x.device.type == "npu"."""
        self.generic_visit(node)
        if node.attr != "is_cuda":
            return node
        kind = ast.Attribute(ast.Attribute(node.value, "device", ast.Load()), "type", ast.Load())
        return ast.fix_missing_locations(ast.copy_location(ast.Compare(kind, [ast.Eq()], [ast.Constant("npu")]), node))


def make_parse_def(original, row):
    @functools.wraps(original)
    def parse_def(fn):
        parsed = original(fn)
        before = ast.dump(parsed.ast)
        tree = _Source().visit(parsed.ast)
        row.uses += ast.dump(tree) != before
        return parsed._replace(ast=tree)

    return parse_def
