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
# Operators that the client runs through CANN's older compiler of single operators, which softnpu does not have.
LEGACY = {
    "_conv_depthwise2d_backward", "_dropout_with_byte_mask_backward", "_npu_ciou", "npu_alloc_float_status",
    "npu_anchor_response_flags", "npu_apply_adam.out", "npu_apply_adam_w.out", "npu_batch_nms", "npu_bmmV2", "npu_bmm_v2_mat1_backward",
    "npu_bmm_v2_mat2_backward", "npu_bounding_box_decode", "npu_bounding_box_encode", "npu_broadcast", "npu_broadcast.out", "npu_ciou",
    "npu_ciou_backward", "npu_clear_float_status", "npu_confusion_transpose", "npu_confusion_transpose_backward", "npu_conv2d",
    "npu_conv2d.out", "npu_conv2d_backward", "npu_conv3d", "npu_conv3d.out", "npu_conv3d_backward", "npu_conv_transpose2d",
    "npu_conv_transpose2d_backward", "npu_conv_transpose3d_backward", "npu_convolution", "npu_convolution_backward",
    "npu_convolution_transpose", "npu_convolution_transpose_backward", "npu_deformable_conv2d", "npu_deformable_conv2dbk", "npu_diou",
    "npu_diou_backward", "npu_dropout_with_add_softmax_backward", "npu_dtype_cast_", "npu_fused_attention_qkv_grad",
    "npu_fused_attention_score_backward", "npu_fused_attention_score_fwd", "npu_fused_attention_score_grad", "npu_get_float_status",
    "npu_giou", "npu_giou_backward", "npu_grid_assign_positive", "npu_gru", "npu_gru_backward", "npu_ifmr", "npu_indexing",
    "npu_indexing.out", "npu_iou", "npu_layer_norm_eval", "npu_layernorm_grad", "npu_lstm", "npu_lstm_backward", "npu_lstm_cell",
    "npu_lstm_cell_backward", "npu_lstm_data", "npu_lstm_data_backward", "npu_masked_fill_range", "npu_max.dim", "npu_max_backward",
    "npu_min.dim", "npu_min_backward", "npu_mish", "npu_mish_backward", "npu_mla_prolog", "npu_multi_head_attention_backward",
    "npu_nms_v4", "npu_nms_with_mask", "npu_normalize_batch", "npu_one_hot", "npu_pad", "npu_ps_roi_pooling",
    "npu_ps_roi_pooling_backward", "npu_ptiou", "npu_quant_conv2d", "npu_rotated_box_decode", "npu_rotated_box_encode",
    "npu_rotated_iou", "npu_rotated_overlaps", "npu_scaled_masked_softmax", "npu_scaled_masked_softmax_backward", "npu_scatter",
    "npu_sign_bits_pack", "npu_sign_bits_unpack", "npu_silu", "npu_silu_", "npu_silu_backward", "npu_slice", "npu_slice.out",
    "npu_softmax_cross_entropy_with_logits", "npu_softmax_cross_entropy_with_logits_backward", "npu_sort_v2", "npu_sort_v2.out",
    "npu_stride_add", "npu_stride_copy", "npu_stride_copy.out", "npu_transpose", "npu_transpose.out", "npu_view_copy",
    "npu_yolo_boxes_encode",
}
# Modules of cases that the client was seen to answer as their references do, but for what they list under NOT_OFFICIAL.
FAMILIES = ("cases", "detection_cases", *sorted(file.stem for file in CASES.glob("cases_*.py")))
sys.path.insert(0, str(CASES))


def families() -> list:
    """The first two have their cases in several lists. NOT_OFFICIAL says of a case, or of its ` gradient`, why the client
    cannot be asked, or does not agree."""
    return [importlib.import_module(name) for name in FAMILIES]


def exceptions() -> set[str]:
    return {case for family in families() for case in getattr(family, "NOT_OFFICIAL", ())}


def cases() -> list:
    plain, detection, *more = families()
    every = [*plain.NORM, *plain.ACTIVATION, *plain.SOFTMAX, *plain.CAST, *plain.LAYOUT]
    every += [*detection.BOX_CASES, *detection.NMS_CASES, *detection.ROI_CASES]
    every += [case for family in more for case in family.CASES]
    apart = exceptions()
    return [case for case in every if case.op not in LEGACY and str(case) not in apart]


def to(device, tree):
    return tree_map_only(torch.Tensor, lambda t: t.detach().to(device, copy=True), tree)


def outputs(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def arguments(case, device):
    """Some operators of the client read tensors of lengths from the host."""
    args, kwargs = to(device, (case.args, case.kwargs))
    if "fusion_attention" in case.op:
        kwargs |= {name: case.kwargs[name] for name in ("actual_seq_qlen", "actual_seq_kvlen") if name in kwargs}
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
    differences([case for case in cases() if case.grad and f"{case} gradient" not in apart], True)
