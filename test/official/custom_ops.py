"""The custom operators called by the official wheel, with the cases of test/custom_ops: results and gradients.

The client and the reference were written by others than the kernel: a wrong order of arguments or a wrong meaning shows here.
"""

import importlib
import sys
from pathlib import Path

import torch
from torch.utils._pytree import tree_map_only

import torch_npu  # noqa: F401

# Rows of csrc/ops/tables that the client runs through CANN's older compiler of single operators, which softnpu does not have.
LEGACY = {
    "npu_bmmV2", "npu_bmm_v2_mat1_backward", "npu_bmm_v2_mat2_backward", "npu_confusion_transpose", "npu_confusion_transpose_backward",
    "npu_deformable_conv2d", "npu_deformable_conv2dbk", "npu_mish", "npu_mish_backward", "npu_mla_prolog", "npu_quant_conv2d",
    "npu_scaled_masked_softmax", "npu_scaled_masked_softmax_backward", "npu_silu", "npu_silu_", "npu_silu_backward",
}
# Operators that are no rows here, and that the client runs without that compiler.
COMPOSED = {
    "copy_memory_", "get_npu_format", "get_storage_size", "npu_convert_weight_to_int4pack", "npu_format_cast.Tensor", "npu_format_cast_",
    "npu_format_cast_.acl_format", "npu_linear", "npu_linear_backward", "npu_reshape.out", "one_",
}
# Modules of cases that the client was seen to answer as their references do, but for what they list under NOT_OFFICIAL.
FAMILIES = ("cases", "cases_attention", "cases_cache", "cases_grouped", "cases_inference", "cases_inference_forms", "cases_misc",
            "cases_moe", "cases_mx", "cases_norm", "cases_quant", "cases_rotary", "cases_softmax")
CASES = Path(__file__).resolve().parent.parent / "custom_ops"
TABLES = Path(__file__).resolve().parents[2] / "csrc/ops/tables"
sys.path.insert(0, str(CASES))


def rows() -> set[str]:
    import yaml

    found = [row for file in TABLES.glob("*.yaml") for row in (yaml.safe_load(file.read_text()).get("custom") or [])]
    return {row["op"].partition("(")[0] for row in found} - LEGACY


def families() -> list:
    """The first has its cases in several lists. NOT_OFFICIAL says of cases why the client cannot be asked, or does not agree."""
    return [importlib.import_module(name) for name in FAMILIES]


def exceptions() -> set[str]:
    return {case for family in families() for case in getattr(family, "NOT_OFFICIAL", ())}


def cases() -> list:
    plain, *more = families()
    every = [*plain.NORM, *plain.ACTIVATION, *plain.SOFTMAX, *plain.CAST, *plain.LAYOUT]
    every += [case for family in more for case in family.CASES]
    known, apart = rows() | COMPOSED, exceptions()
    return [case for case in every if case.op in known and str(case) not in apart]


def to(device, tree):
    return tree_map_only(torch.Tensor, lambda t: t.detach().to(device, copy=True), tree)


def outputs(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def operator(case):
    packet, _, overload = case.op.partition(".")
    return getattr(getattr(torch.ops.npu, packet), overload or "default")


def compare(actual, expected):
    for a, e in zip(actual, expected):
        if not isinstance(e, torch.Tensor) or (a is None and e.numel() == 0):  # a result that is not there
            continue
        # Numbers of 8 bits have no neighbours within a tolerance.
        tolerance = 0.0 if e.dtype.is_floating_point and e.dtype.itemsize == 1 else 1.0
        torch.testing.assert_close(a.cpu(), e, rtol=1e-4 * tolerance, atol=1e-5 * tolerance)


def gradients(case, device, function):
    args = list(to(device, case.args))
    for i in case.grad:
        args[i].requires_grad_()
    first = outputs(function(*args, **to(device, case.kwargs)))[case.through]
    seed = torch.randn(first.shape, generator=torch.Generator().manual_seed(0)).to(first.dtype).to(device)
    return torch.autograd.grad(first, [args[i] for i in case.grad], seed)


def difference(case, gradient=False) -> str:
    """What the official client gets that differs from the reference, if anything."""
    try:
        if gradient:
            compare(gradients(case, "npu", operator(case)), gradients(case, "cpu", case.reference))
        else:
            expected = outputs(case.reference(*to("cpu", case.args), **to("cpu", case.kwargs)))
            compare(outputs(operator(case)(*to("npu", case.args), **to("npu", case.kwargs))), expected)
        torch.npu.synchronize()
    except Exception as error:
        return f"{case}{' gradient' if gradient else ''}: {' '.join(str(error).split())[:300]}"
    return ""


def is_usable() -> bool:
    """False after a task failed."""
    try:
        return (torch.ones(3).npu() + 1).sum().item() == 6
    except RuntimeError:
        return False


def differences(every, gradient):
    wrong = []
    for case in every:
        if text := difference(case, gradient):
            wrong.append(text)
            if not is_usable():
                break
    assert not wrong, "\n".join(wrong)


def check_custom_operators():
    differences(cases(), False)


def check_gradients_of_custom_operators():
    apart = exceptions()
    differences([case for case in cases() if case.grad and f"{case} gradient" not in apart], True)
