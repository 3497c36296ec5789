"""Overlap of boxes and the box coders of detectors, in the argument order that detection code uses."""

import torch

__all__ = [
    "npu_bbox_coder_decode_xywh2xyxy",
    "npu_bbox_coder_encode_xyxy2xywh",
    "npu_bbox_coder_encode_yolo",
    "npu_ciou",
    "npu_diou",
    "npu_giou",
    "npu_iou",
    "npu_ptiou",
    "npu_single_level_responsible_flags",
]
_FAR = 9999


def npu_iou(boxes1, boxes2, mode="ptiou", is_normalized=False, normalized_scale=100.0):
    """[n, m] overlaps of boxes x1 y1 x2 y2.

    Mode "ptiou" counts whole pixels, for which boxes within the unit square (is_normalized) are enlarged first; "iou" does not.
    """
    if mode not in ("iou", "ptiou"):
        raise ValueError(f'mode must be "iou" or "ptiou", not {mode!r}')
    if is_normalized:
        boxes1, boxes2 = boxes1 * normalized_scale, boxes2 * normalized_scale
    operator = torch.ops.npu.npu_iou if mode == "iou" else torch.ops.npu.npu_ptiou
    return operator(boxes2, boxes1)


npu_ptiou = npu_iou


def npu_giou(boxes1, boxes2, is_permuted=True):
    """[n, 1] generalised overlap of box i with box i, given as centre and sides. is_permuted: as [n, 4], else as [4, n]."""
    if is_permuted:
        boxes1, boxes2 = boxes1.t(), boxes2.t()
    return torch.ops.npu.npu_giou(boxes1, boxes2, True, False, 0)


def npu_diou(boxes1, boxes2, trans=True, is_cross=False, mode=0):
    """Distance overlap of boxes [4, n]; see torch.ops.npu.npu_diou."""
    return torch.ops.npu.npu_diou(boxes1, boxes2, trans, is_cross, mode)


def npu_ciou(boxes1, boxes2, trans=True, is_cross=False, mode=0):
    """Complete overlap of boxes [4, n]; see torch.ops.npu.npu_ciou."""
    return torch.ops.npu.npu_ciou(boxes1, boxes2, trans, is_cross, mode, True)


def npu_bbox_coder_encode_xyxy2xywh(bboxes, gt_bboxes, means=None, stds=None, is_normalized=False, normalized_scale=10000.0):
    """Boxes as shifts and logarithmic ratios relative to anchors."""
    _check_pairs(bboxes, gt_bboxes)
    if is_normalized:
        bboxes, gt_bboxes = bboxes * normalized_scale, gt_bboxes * normalized_scale
    return torch.ops.npu.npu_bounding_box_encode(bboxes, gt_bboxes, *(means or [0.0] * 4), *(stds or [1.0] * 4))


def npu_bbox_coder_decode_xywh2xyxy(bboxes, pred_bboxes, means=None, stds=None, max_shape=None, wh_ratio_clip=0.016):
    """The inverse of the encoding, clipped to an image of height and width max_shape."""
    _check_pairs(bboxes, pred_bboxes)
    shape = list(max_shape)[:2] if max_shape is not None else [_FAR, _FAR]
    return torch.ops.npu.npu_bounding_box_decode(bboxes, pred_bboxes, *(means or [0.0] * 4), *(stds or [1.0] * 4), shape, wh_ratio_clip)


def npu_bbox_coder_encode_yolo(bboxes, gt_bboxes, stride):
    """Boxes as shifts within a cell and logarithmic ratios relative to anchors, as YOLO learns them."""
    _check_pairs(bboxes, gt_bboxes)
    if not isinstance(stride, torch.Tensor):
        stride = torch.full((bboxes.shape[0],), stride, device=bboxes.device)
    return torch.ops.npu.npu_yolo_boxes_encode(bboxes, gt_bboxes, stride, False)


def npu_single_level_responsible_flags(featmap_size, gt_bboxes, stride, num_base_anchors):
    """Which anchors of a feature map have the centre of a box in their cell."""
    return torch.ops.npu.npu_anchor_response_flags(gt_bboxes, featmap_size, stride, num_base_anchors)


def _check_pairs(a, b) -> None:
    if a.shape[-1] != 4 or a.shape != b.shape:
        raise ValueError(f"boxes come in pairs of shape [n, 4], not {list(a.shape)} and {list(b.shape)}")
