"""The custom operators that softnpu has kernels for, called by the official wheel, with the cases of test/custom_ops.

The client and the reference were written by others than the kernel: a wrong order of arguments or a wrong meaning shows here.
"""

import importlib
import sys
from pathlib import Path

import torch
from torch.utils._pytree import tree_map_only

import torch_npu  # noqa: F401

# The client runs these through CANN's older compiler of single operators, which softnpu does not have.
LEGACY = {"npu_mish", "npu_mish_backward", "npu_silu", "npu_silu_", "npu_silu_backward"}
# The families whose cases the wheel was seen to answer as the reference does.
FAMILIES = ("cases_norm", "cases_quant", "cases_grouped")
CASES = Path(__file__).resolve().parent.parent / "custom_ops"
TABLES = Path(__file__).resolve().parents[2] / "csrc/ops/tables"
sys.path.insert(0, str(CASES))


def rows() -> set[str]:
    import yaml

    found = [row for file in TABLES.glob("*.yaml") for row in (yaml.safe_load(file.read_text()).get("custom") or [])]
    return {row["op"].partition("(")[0] for row in found} - LEGACY


def cases() -> list:
    plain = importlib.import_module("cases")
    return [*plain.NORM, *plain.ACTIVATION, *(case for name in FAMILIES for case in importlib.import_module(name).CASES)]


def exceptions() -> set[str]:
    """Cases of which a family says, with the reason, that the wheel does not agree."""
    return {case for name in FAMILIES for case in getattr(importlib.import_module(name), "NOT_OFFICIAL", ())}


def to(device, tree):
    return tree_map_only(torch.Tensor, lambda t: t.detach().to(device, copy=True), tree)


def outputs(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def difference(case) -> str:
    """What the official client gets that differs from the reference, if anything."""
    packet, _, overload = case.op.partition(".")
    operator = getattr(getattr(torch.ops.npu, packet), overload or "default")
    expected = outputs(case.reference(*to("cpu", case.args), **to("cpu", case.kwargs)))
    try:
        actual = outputs(operator(*to("npu", case.args), **to("npu", case.kwargs)))
        for a, e in zip(actual, expected):
            if isinstance(e, torch.Tensor):
                torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-5)
    except Exception as error:
        return f"{case}: {str(error).splitlines()[0]}"
    return ""


def check_custom_operators():
    known, every = rows(), cases()
    apart = exceptions()
    wrong = [text for case in every if case.op in known and str(case) not in apart and (text := difference(case))]
    assert not wrong, "\n".join(wrong)
