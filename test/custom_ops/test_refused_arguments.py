"""Arguments that a composition gives no meaning to are named, not ignored: each that the sources refuse, on a case of its operator."""

import ast
import sys
from pathlib import Path

import pytest
import torch

import torch_npu.custom_ops

sys.path.insert(0, str(Path(__file__).parent))
from test_custom_ops import CASES, operator, to  # noqa: E402

CASE_OF = {case.op.partition(".")[0]: case for case in reversed(CASES)}
# What is not a default, by the type that the schema names; and where that would be one, or mean something.
VALUES = {"Tensor": torch.ones(2), "int": 3, "bool": True, "str": "floor", "List[Tensor]": [torch.ones(2)], "List[int]": [1],
          "List[bool]": [True, True], "float": 0.5}
OTHERS = {("npu_indexing", "strides"): [-1, 1]}


def refused() -> list[tuple[str, str]]:
    """(operator, argument) of every refuse("operator", argument=...) in the package."""
    found = []
    for path in sorted(Path(torch_npu.custom_ops.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "refuse" and isinstance(node.args[0], ast.Constant):
                found += [(node.args[0].value, keyword.arg) for keyword in node.keywords if keyword.arg and node.args[0].value in CASE_OF]
    return found


@pytest.mark.parametrize("name, argument", refused())
def test_argument_is_refused_by_name(name, argument):
    case = CASE_OF[name]
    function = operator(case.op)
    arguments = function._schema.arguments
    kind = str(next(a for a in arguments if a.name == argument).type).removeprefix("Optional[").removesuffix("]")
    value = OTHERS.get((name, argument), VALUES.get(kind, VALUES.get(kind + "]")))
    given = {**dict(zip((a.name for a in arguments), case.args)), **case.kwargs, argument: value}
    with pytest.raises(NotImplementedError, match=f"{name} does not support.*{argument}"):
        function(**to("npu", given))


def test_numbers_without_a_meaning_are_refused():
    x = torch.ones(2, 3, device="npu")
    with pytest.raises(NotImplementedError, match="npu_indexing does not support strides"):
        torch.ops.npu.npu_indexing(x, [0, 0], [2, 3], [1, 0])
    with pytest.raises(ValueError, match="roi_end_mode must be 0, 1 or 2, got 3"):
        torch.ops.npu.npu_roi_align(torch.ones(1, 1, 4, 4, device="npu"), torch.zeros(1, 5, device="npu"), 1.0, 2, 2, 2, 3)
    boxes, scores = torch.ones(1, 2, 1, 4, device="npu"), torch.ones(1, 2, 1, device="npu")
    for options in ((True, False), (False, True)):
        with pytest.raises(NotImplementedError, match="npu_batch_nms does not support change_coordinate_frame and transpose_box"):
            torch.ops.npu.npu_batch_nms(boxes, scores, 0.1, 0.5, 2, 2, *options)
