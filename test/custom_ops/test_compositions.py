"""npu:: operators that are Python compositions (torch_npu/custom_ops), on their cases: any strides, and the CPU's answer in float64."""

import sys
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_map_only

sys.path.insert(0, str(Path(__file__).parent))
from test_custom_ops import CASES, assert_close, check_strided, operator, outputs, to  # noqa: E402

from torch_npu.custom_ops.schemas import SCHEMAS  # noqa: E402

COMPOSED = {schema.partition("(")[0] for schemas in SCHEMAS.values() for schema in schemas}
OF_COMPOSITIONS = [case for case in CASES if case.op in COMPOSED]


@pytest.mark.parametrize("case", [case for case in OF_COMPOSITIONS if not case.op.startswith("npu_stride_copy")], ids=str)  # reads strides
def test_strided_inputs(case):
    check_strided(case)


@pytest.mark.parametrize("case", OF_COMPOSITIONS, ids=str)
def test_double_precision(case):
    args, kwargs = tree_map_only(torch.Tensor, lambda t: t.double() if t.dtype == torch.float32 else t, (case.args, case.kwargs))
    try:
        expected = outputs(case.reference(*to("cpu", args), **to("cpu", kwargs)))
    except RuntimeError:
        pytest.skip("the reference makes tensors of float32")
    actual = outputs(operator(case.op)(*to("npu", args), **to("npu", kwargs)))
    for a, e in zip(actual, expected):
        if isinstance(e, torch.Tensor):  # some references are loops over Python's numbers, which end in float32
            assert_close(a.to(e.dtype), e)


# They iterate until nothing changes, which fake tensors cannot show.
TRACED = {"npu_batch_nms", "npu_nms_with_mask"}


@pytest.mark.parametrize("case", {case.op: case for case in reversed(OF_COMPOSITIONS)}.values(), ids=str)
def test_opcheck(case):
    """Tracing takes a second each, and is upstream's for what is composed of its operators."""
    args, kwargs = to("npu", (case.args, case.kwargs))
    checks = ["test_schema", "test_faketensor", *(["test_aot_dispatch_dynamic"] if case.op in TRACED else [])]
    torch.library.opcheck(operator(case.op), args, kwargs, test_utils=checks)
