"""The custom operators called by the official wheel, with the cases of test/custom_ops: results and gradients.

The client and the reference were written by others than the kernel: a wrong order of arguments or a wrong meaning shows here.
"""

import importlib
import os
import sys
from pathlib import Path

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

import torch_npu  # noqa: F401

CASES = Path(__file__).resolve().parent.parent / "custom_ops"
# Operators that the client sends to the interface before aclnn (aclopCompileAndExecute) as something that softnpu refuses by name, and why.
LEGACY = {
    "npu_fused_attention_qkv_grad": "AttentionQKVGradW: the client gives the gradients of the biases another size than the biases have",
    "npu_ifmr": "IFMR: not implemented",
    "npu_layernorm_grad": "LayerNormGrad: whether it takes the variance or the inverse of its root is not published",
    "npu_multi_head_attention_backward": "MultiHeadAttentionGrad: not implemented; sizes are multiples of 16, which the cases' are not",
    "npu_quant_conv2d": "QuantConv2D: not implemented",
}
# Cases, their gradients and (with a star) operators that softnpu computes, where the client itself differs from the reference.
DIFFERS = {
    "npu_bmmV2-sizes": "the client reshapes by the sizes, and does not add up what they leave out",
    "npu_ciou_backward *": "the client needs atan_sub, which the cases leave out; the gradient of npu_ciou has it",
    "npu_confusion_transpose_backward *": "the client transposes more dimensions than the gradient has; as a gradient it is right",
    "npu_dropout_with_add_softmax_backward *": "the client gives the first gradient for both",
    "npu_mla_prolog *": "the client's results are bfloat16 for any type",
    "npu_iou *": "the client computes in float16",
    "npu_ptiou *": "the client calls npu_iou",
    "npu_lstm_data_backward *": "the client takes the gradients of states from the last step only",
    **dict.fromkeys((f"npu_lstm_backward{label}" for label in ("", "-a batch of one", "-nine steps", "-cells alone")), "the same"),
    **dict.fromkeys((f"npu_gru_backward{label}" for label in ("", "-states", "-a batch of one", "-nine steps")), "the same"),
    **dict.fromkeys((f"{case} gradient" for case in ("npu_lstm-a batch of one", "npu_gru-nine steps", "npu_lstm_data-backwards",
                                                     "npu_lstm_data-from zero")), "the same"),
    "npu_lstm-backwards gradient": "the client differentiates the forward direction",
    "npu_lstm-ragged gradient": "the client differentiates as if no sequence had ended",
    "npu_lstm-ragged, backwards gradient": "as both above",
    **dict.fromkeys((f"npu_giou{label}" for label in ("", "-paired", "-cross", "-over_first", "-many pairs")),
                    "the client takes trans=True, is_cross=False and mode=0 only"),
    **dict.fromkeys((f"npu_giou_backward{label}" for label in ("-corners", "-many corners", "-apart")), "the same"),
    **dict.fromkeys((f"npu_indexing{label}" for label in ("", "-open_ends", "-an element", "-open in front", "-open behind", "-all of it")),
                    "the client gives results the sizes of begin and end, whatever the masks say"),
    **dict.fromkeys((f"npu_indexing.out{label}" for label in ("", "-steps", "-an element", "-open in front", "-open behind")),
                    "the client does not resize the output"),
    "npu_slice": "the client takes no -1 for the rest",
    "npu_slice-to_the_end": "the same",
}
# The client has no formulas for the gradients of these.
NO_GRADIENT = {"npu_broadcast", "npu_conv2d", "npu_conv3d", "npu_conv_transpose2d", "npu_indexing", "npu_layer_norm_eval",
               "npu_normalize_batch", "npu_pad", "npu_scatter", "npu_slice", "npu_sort_v2", "npu_stride_add", "npu_transpose"}
# Modules of cases that the client was seen to answer as their references do, but for what they list under NOT_OFFICIAL.
FAMILIES = ("cases", "detection_cases", *sorted(file.stem for file in CASES.glob("cases_*.py")))
sys.path.insert(0, str(CASES))


def families() -> list:
    """The first two have their cases in several lists. NOT_OFFICIAL says of a case, or of its ` gradient`, why the client
    cannot be asked, or does not agree."""
    return [importlib.import_module(name) for name in FAMILIES]


def exceptions() -> set[str]:
    return {case for family in families() for case in getattr(family, "NOT_OFFICIAL", ())} | DIFFERS.keys()


def cases() -> list:
    plain, detection, *more = families()
    every = [*plain.NORM, *plain.ACTIVATION, *plain.SOFTMAX, *plain.CAST, *plain.LAYOUT]
    every += [*detection.BOX_CASES, *detection.NMS_CASES, *detection.ROI_CASES]
    every += [case for family in more for case in family.CASES]
    apart = exceptions()
    return [case for case in every if case.op not in LEGACY and not {f"{case.op} *", str(case)} & apart]


def to(device, tree):
    return tree_map_only(torch.Tensor, lambda t: t.detach().to(device, copy=True), tree)


def outputs(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def arguments(case, device):
    """Some operators of the client read tensors of lengths from the host, or take other forms of an argument."""
    args, kwargs = to(device, (case.args, case.kwargs))
    if "fusion_attention" in case.op:
        kwargs |= {name: case.kwargs[name] for name in ("actual_seq_qlen", "actual_seq_kvlen") if name in kwargs}
    if case.op.startswith("npu_apply_adam"):  # the client's schema has one list
        kwargs = {"out": [kwargs[name] for name in ("var", "m", "v")]}
    if case.op == "npu_yolo_boxes_encode":
        args = (*args[:2], args[2].to(torch.int32), *args[3:])
    return args, kwargs


def operator(case):
    packet, _, overload = case.op.partition(".")
    return getattr(getattr(torch.ops.npu, packet), overload or "default")


def compare(actual, expected):
    for a, e in zip(actual, expected):
        if not isinstance(e, torch.Tensor) or (a is None and e.numel() == 0):  # a result that is not there
            continue
        # Numbers of 8 bits have no neighbours within a tolerance.
        if e.dtype == torch.uint8 and a.element_size() == 1:  # some results have other types than in the client's meta function
            a = a.view(torch.uint8)
        tolerance = 0.0 if e.dtype.is_floating_point and e.dtype.itemsize == 1 else 1.0
        torch.testing.assert_close(a.cpu(), e, rtol=1e-4 * tolerance, atol=1e-5 * tolerance)


def gradients(case, device, function):
    args, kwargs = arguments(case, device)
    for i in case.grad:
        args[i].requires_grad_()
    first = outputs(function(*args, **kwargs))[case.through]
    seed = torch.randn(first.shape, generator=torch.Generator().manual_seed(0)).to(first.dtype).to(device)
    return torch.autograd.grad(first, [args[i] for i in case.grad], seed)


def difference(case, gradient=False) -> str:
    """What the official client gets that differs from the reference, if anything."""
    try:
        if gradient:
            compare(gradients(case, "npu", operator(case)), gradients(case, "cpu", case.reference))
        else:
            expected = outputs(case.reference(*to("cpu", case.args), **to("cpu", case.kwargs)))
            args, kwargs = arguments(case, "npu")
            result = operator(case)(*args, **kwargs)
            compare(tree_leaves([args[i] for i in case.written]) if case.written else outputs(result), expected)
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
    if os.environ.get("TASK_QUEUE_ENABLE") != "1":  # all cases in one mode, one of each operator in the others
        every = list({case.op: case for case in reversed(every)}.values())
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
    differences([case for case in cases() if case.grad and case.op not in NO_GRADIENT and f"{case} gradient" not in apart], True)
