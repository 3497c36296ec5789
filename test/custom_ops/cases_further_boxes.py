"""Further forms of boxes: a single one, boxes over themselves, regions of a single bin."""

import torch
from cases import rand
from cases_boxes import (
    BOXES5,
    CENTRES,
    FACTORS,
    FEW,
    NEAR,
    PS_ROIS,
    SEED,
    TRUTHS5,
    backward,
    ciou_pair,
    decode,
    encode,
    ps_roi_gradient,
    rotated_overlaps,
)
from cases_mx import case
from detection_cases import BOXES, ROIS, TRUTHS, encode_loop, greedy, iou_loop, ps_roi, yolo_loop


def answered(boxes, shape, strides, count):
    """A flag for every anchor of the cell that a box's centre lies in."""
    flags = torch.zeros(*shape, count, dtype=torch.uint8)
    for x1, y1, x2, y2 in boxes.tolist():
        flags[int((y1 + y2) / 2 // strides[1]), int((x1 + x2) / 2 // strides[0])] = 1
    return flags.flatten()


def with_mask(boxes, threshold):
    kept = torch.zeros(len(boxes), dtype=torch.uint8).index_fill(0, torch.tensor(greedy(boxes[:, :4], threshold)), 1)
    return boxes, torch.arange(len(boxes), dtype=torch.int32), kept


ONE = torch.tensor([[1.0, 2, 5, 9]])
CASES = [
    case("_npu_ciou", (CENTRES[:, :1], NEAR[:, :1], True, False), ciou_pair, "one pair"),
    *[case(f"npu_{kind}_backward", (SEED.t()[:2] if kind == "giou" else SEED[:, :2], CENTRES[:, :2], NEAR[:, :2],
                                    *((None,) if kind == "ciou" else ()), True, False), backward(kind), "two pairs")
      for kind in ("giou", "diou", "ciou")],
    case("npu_rotated_overlaps", (FEW[:1], FEW[:1]), rotated_overlaps, "the same"),
    case("npu_rotated_box_encode", (BOXES5[:1, :, :1].contiguous(), TRUTHS5[:1, :, :1].contiguous(), FACTORS), encode, "one box"),
    case("npu_rotated_box_decode", (BOXES5[:1, :, :1].contiguous(), rand(1, 5, 1), FACTORS), decode, "one box"),
    case("npu_ps_roi_pooling_backward", (rand(2, 1, 2, 2), PS_ROIS[:1].contiguous(), 1.0, 2, 1, [9, 8]), ps_roi_gradient, "one image"),
    case("npu_ps_roi_pooling_backward", (rand(4, 3, 1, 1), PS_ROIS, 0.25, 1, 3, [5, 6]), ps_roi_gradient, "one bin"),
    case("npu_ps_roi_pooling", (rand(1, 3, 8, 8), ROIS[:1].t()[None].contiguous(), 0.5, 1, 3), ps_roi, "one bin"),
    case("npu_bounding_box_encode", (ONE, ONE + 1, 0, 0, 0, 0, 1, 1, 1, 1), encode_loop, "one box"),
    case("npu_anchor_response_flags", (ONE * 4, [3, 5], [8, 16], 1), answered, "one anchor"),
    case("npu_yolo_boxes_encode", (ONE, ONE + 1, torch.tensor([2])), yolo_loop, "one box"),
    case("npu_nms_with_mask", (torch.tensor([[0.0, 0, 2, 2, 0.9]]), 0.5), with_mask, "one box"),
    case("npu_iou", (BOXES[:1], TRUTHS), lambda b, g: iou_loop(g, b), "one box"),
    case("npu_ptiou", (BOXES[:1], TRUTHS), lambda b, g: iou_loop(g, b, 1.0), "one box"),
]
