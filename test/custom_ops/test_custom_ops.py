"""Every custom operator against plain torch: results, gradients, meta shapes; and the schemas that are registered."""

import importlib
import inspect
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
import yaml
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only

from torch_npu.custom_ops import NAMES, REFUSED
from torch_npu.custom_ops.schemas import SCHEMAS

sys.path.insert(0, str(Path(__file__).parent))
import cases  # noqa: E402
import detection_cases  # noqa: E402
import unknown_calls  # noqa: E402

MORE = [importlib.import_module(file.stem) for file in sorted(Path(__file__).parent.glob("cases_*.py"))]  # a family each
CASES = [*cases.NORM, *cases.ACTIVATION, *cases.SOFTMAX, *cases.CAST, *cases.LAYOUT,
         *detection_cases.BOX_CASES, *detection_cases.NMS_CASES, *detection_cases.ROI_CASES,
         *(case for module in MORE for case in module.CASES)]
# Tested in files of their own: drawn at random, with many modes, or without a result of their own.
ELSEWHERE = {
    "_dropout_with_byte_mask", "_npu_dropout", "dropout_with_byte_mask", "npu_apply_adam", "npu_apply_adam_w",
    "npu_bert_apply_adam", "npu_dropout_backward", "npu_dropout_do_mask", "npu_dropout_gen_mask", "npu_dropout_with_add_softmax",
    "npu_fused_attention_score", "npu_multi_head_attention", "empty_with_format", "empty_with_swapped_memory", "npu_change_data_ptr",
    "npu_nms_rotated", "npu_random_choice_with_mask", "npu_sub_sample", "print_npugraph_tensor", "save_npugraph_tensor",
    "set_op_timeout_ms", "unsafe_empty_with_format",
}
# What the official wheel registers, and where we differ.
OFFICIAL_SCHEMAS = {line.removeprefix("npu::").partition("(")[0]: line
                    for line in (Path(__file__).parent / "official_schemas.txt").read_text().splitlines() if line.startswith("npu::")}
OTHER_SCHEMAS = yaml.safe_load((Path(__file__).parents[1] / "expect/schemas.yaml").read_text())
by_name = pytest.mark.parametrize("case", CASES, ids=str)


def operator(name):
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.npu, packet), overload or "default")


def to(device, tree):
    return tree_map_only(torch.Tensor, lambda t: t.detach().to(device, copy=True), tree)


def outputs(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def called(case, args, kwargs):
    """What is compared: the results, or the arguments that are written."""
    result = operator(case.op)(*args, **kwargs)
    return tree_leaves([args[i] for i in case.written]) if case.written else outputs(result)


EXPECTED = {}  # what a case's reference says, once in a process: some are loops over every number


def compared(case, result):
    """The reference's outputs; it may leave out trailing ones."""
    name = str(case)
    if name not in EXPECTED:
        EXPECTED[name] = outputs(case.reference(*to("cpu", case.args), **to("cpu", case.kwargs)))
    expected = EXPECTED[name]
    return outputs(result)[: len(expected)], expected


def check_strided(case):
    """With every tensor a view that has gaps between its elements."""
    def strided(t):
        t = t.npu()
        return torch.stack([t, t], -1)[..., 0] if t.dim() else t

    actual, expected = compared(case, called(case, tree_map_only(torch.Tensor, strided, case.args),
                                             tree_map_only(torch.Tensor, strided, case.kwargs)))
    for a, e in zip(actual, expected):
        if isinstance(e, torch.Tensor):
            assert_close(a, e)


def assert_close(actual, expected):
    """Numbers of 8 bits are compared bit by bit: they have no neighbours within a tolerance."""
    tolerance = 0.0 if expected.dtype.is_floating_point and expected.dtype.itemsize == 1 else 1.0
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4 * tolerance, atol=1e-5 * tolerance)


@by_name
def test_result(case):
    actual, expected = compared(case, called(case, to("npu", case.args), to("npu", case.kwargs)))
    for a, e in zip(actual, expected):
        if isinstance(e, torch.Tensor):
            assert a.device.type == "npu"
            assert_close(a, e)
        else:
            assert a == e


WITH_GRADIENTS = [case for case in CASES if case.grad]


def a_gradient(result):
    return torch.randn(result.shape, generator=torch.Generator().manual_seed(0)).to(result.device, result.dtype)


def of_a_sum(result):
    """One number for all of the result, as sum().backward() gives it."""
    return torch.full((), 0.5, dtype=result.dtype, device=result.device).expand(result.shape)


def gradients(case, function, args, kwargs, given):
    args = list(args)
    for i in case.grad:
        args[i].requires_grad_()
    first = outputs(function(*args, **kwargs))[case.through]
    return torch.autograd.grad(first, [args[i] for i in case.grad], given(first))


@pytest.mark.parametrize("given", [a_gradient, of_a_sum])
@pytest.mark.parametrize("case", WITH_GRADIENTS, ids=str)
def test_gradients(case, given):
    if case.op in ("npu_iou", "npu_ptiou"):
        reference = operator(case.op)  # the loop has no gradient; the same composition on the CPU has torch's
    else:
        reference = case.reference
    actual, expected = (gradients(case, function, *to(device, (case.args, case.kwargs)), given)
                        for device, function in (("npu", operator(case.op)), ("cpu", reference)))
    for a, e in zip(actual, expected):
        torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-5)


# Their results depend on values, or on a storage that a meta tensor does not have.
WITHOUT_META = {"npu_batch_nms", "npu_nms_v4"}


@pytest.mark.parametrize("case", [case for case in CASES if case.op not in WITHOUT_META and not case.label.endswith("-0")], ids=str)
def test_meta(case):
    def shapes(args, kwargs):
        return [(t.shape, t.dtype) for t in tree_leaves(operator(case.op)(*args, **kwargs)) if isinstance(t, torch.Tensor)]

    arguments = to("npu", (case.args, case.kwargs))
    mode = FakeTensorMode()
    fake = tree_map_only(torch.Tensor, mode.from_tensor, arguments)
    with mode:
        fake_shapes = shapes(*fake)
    assert fake_shapes == shapes(*to("meta", arguments)) == shapes(*arguments)


@pytest.mark.parametrize("name", sorted(name.removeprefix("npu::") for name in torch._C._dispatch_get_all_op_names()
                                         if name.startswith("npu::") and not name.startswith("npu::_fused_")))
def test_schema(name):
    official = torch._C.parse_schema(OFFICIAL_SCHEMAS[name])
    if name in OTHER_SCHEMAS:
        assert operator(name)._schema != official, f"equal, but test/expect/schemas.yaml says: {OTHER_SCHEMAS[name]}"
    else:
        assert str(operator(name)._schema) == str(official)


@pytest.mark.parametrize(("family", "name"), [pytest.param(family, schema.partition("(")[0], id=schema.partition("(")[0])
                                              for family, schemas in SCHEMAS.items() for schema in schemas])
def test_what_is_left_out_of_a_call_is_what_the_schema_says(family, name):
    """The dispatcher does not hand on an argument that equals its default: the function's own is the one that counts."""
    function = getattr(importlib.import_module(f"torch_npu.custom_ops.{family}"), name.replace(".", "_"))
    parameters = inspect.signature(function).parameters
    for argument in torch._C.parse_schema(OFFICIAL_SCHEMAS[name]).arguments:
        if argument.has_default_value() and argument.name in parameters:
            default = parameters[argument.name].default
            assert (list(default) if isinstance(default, tuple) else default) == argument.default_value, argument.name


def test_rows_of_other_schemas_name_operators():
    assert OTHER_SCHEMAS.keys() <= OFFICIAL_SCHEMAS.keys()


def test_every_operator_has_a_case():
    covered = {case.op.partition(".")[0] for case in CASES}.union(ELSEWHERE, *(getattr(module, "ELSEWHERE", ()) for module in MORE))
    covered |= {name for name, *_ in unknown_calls.CASES}
    assert covered == NAMES


def test_every_operator_has_six_cases():
    """Calls that differ in options, class of shape or type; what the harness derives from each of them is not counted."""
    counts = Counter(case.op for case in CASES)
    assert not {op: count for op, count in counts.items() if count < 6}
    names = Counter(str(case) for case in CASES)
    assert not {name: count for name, count in names.items() if count > 1}


def test_operators_are_functions_of_the_package():
    import torch_npu

    assert torch_npu.npu_swiglu is torch.ops.npu.npu_swiglu
    with pytest.raises(AttributeError, match="npu_nothing"):
        torch_npu.npu_nothing  # noqa: B018
    for name, reason in REFUSED.items():
        with pytest.raises(AttributeError, match=re.escape(reason)):
            getattr(torch_npu, name)


def test_every_operator_of_the_official_plugin_is_registered_with_its_schema():
    registered = {name.removeprefix("npu::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("npu::")}
    assert OFFICIAL_SCHEMAS.keys() <= registered
    assert {name for name in registered - OFFICIAL_SCHEMAS.keys() if not name.startswith("_fused_")} == set()


def test_what_is_refused_says_why_whatever_it_is_called_with():
    assert len(REFUSED) <= 110
    with pytest.raises(NotImplementedError, match="npu::obfuscation_finalize is not supported: .+\\.$"):
        torch.ops.npu.obfuscation_finalize(torch.ones(2))


def test_a_row_refuses_tensors_of_the_cpu():
    with pytest.raises(NotImplementedError, match="npu::npu_swiglu"):
        torch.ops.npu.npu_swiglu(torch.randn(2, 4))
