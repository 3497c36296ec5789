"""Boxes, their suppression, and pooling of regions: many boxes, boxes that do not meet, sides of other lengths."""

import torch
from cases import rand
from cases_boxes import (
    ASSIGN,
    FACTORS,
    assigned,
    backward,
    ciou_pair,
    decode,
    encode,
    ps_roi_gradient,
    roi_gradient,
    rotated,
    rotated_iou,
    rotated_overlaps,
    to_corners,
)
from cases_further_boxes import answered, with_mask
from cases_misc import deformed, deformed_gradients
from cases_mx import case
from detection_cases import (
    ROIS,
    SHUFFLED,
    batch_nms,
    decode_loop,
    encode_loop,
    iou_loop,
    nms_v4,
    pair_reference,
    ps_roi,
    random_boxes,
    yolo_loop,
)

MANY, OTHERS = random_boxes(12), random_boxes(12, seed=3)
APART = torch.tensor([[0.0, 0, 1, 1], [5, 5, 7, 6]]), torch.tensor([[3.0, 3, 4, 4], [9, 9, 12, 11]])
SAME = random_boxes(3, seed=7)
CENTRES, NEAR = (torch.cat([(b[:, :2] + b[:, 2:]) / 2, b[:, 2:] - b[:, :2]], 1).t().contiguous() for b in (MANY, OTHERS))
PAIRS = {"many": (MANY, OTHERS), "apart": APART, "themselves": (SAME, SAME)}


def falling(boxes):
    return torch.cat([boxes, torch.linspace(1, 0.1, len(boxes))[:, None]], 1)


def five(*shape, seed=0):
    return to_corners(rotated(*shape, seed=seed)).transpose(1, 2).contiguous()


OVERLAP = [
    *[case(f"npu_{kind}", (a, b, *mode), lambda b, g, m=0, extra=extra: iou_loop(g, b, extra, over_first=m == 1), label)
      for kind, extra in (("iou", 0.0), ("ptiou", 1.0)) for label, a, b, mode in (("many", MANY, OTHERS, ()), ("apart", *APART, ()),
                                                                                 ("many over the truth", MANY, OTHERS[:5], (1,)))],
    *[case(f"npu_{kind}", (MANY.t(), OTHERS.t(), False, False), pair_reference(kind), "many pairs") for kind in ("giou", "diou")],
    *[case(f"npu_{kind}_backward", (rand(12, 1) if kind == "giou" else rand(1, 12), *args, *((None,) if kind == "ciou" else ()), trans,
        False),
           backward(kind), label) for kind in ("giou", "diou", "ciou")
      for label, args, trans in (("many centres", (CENTRES, NEAR), True), ("many corners", (MANY.t().contiguous(),
          OTHERS.t().contiguous()), False))],
    *[case(f"npu_{kind}_backward", (rand(2, 1) if kind == "giou" else rand(1, 2), *(b.t().contiguous() for b in APART),
                                    *((None,) if kind == "ciou" else ()), False, False), backward(kind), "apart")
      for kind in ("giou", "diou", "ciou")],
    case("_npu_ciou", (CENTRES, NEAR, True, False), ciou_pair, "many"),
    case("_npu_ciou", (MANY.t(), OTHERS.t(), False, True), ciou_pair, "many, cross"),
    case("_npu_ciou", (APART[0].t(), APART[1].t(), False, False), ciou_pair, "apart"),
    *[case("npu_rotated_overlaps", args, rotated_overlaps, label) for label, args in {
        "many": (rotated(1, 7, seed=5), rotated(1, 6, seed=6)), "three images": (rotated(3, 2, seed=5), rotated(3, 1, seed=6), False),
        "one corner each": (to_corners(rotated(1, 1, seed=5)), to_corners(rotated(1, 1, seed=6)), True)}.items()],
    *[case("npu_rotated_iou", args, lambda a, b, trans=False, mode=0, cross=True, v=0.0, e=0.0: rotated_iou(a, b, trans, mode), label)
      for label, args in {"many": (rotated(1, 7, seed=5), rotated(1, 6, seed=6)),
                          "corners over the first": (to_corners(rotated(2, 3, seed=5)), to_corners(rotated(2, 2, seed=6)), True,
                              1)}.items()],
    *[case("npu_rotated_box_encode", (five(*shape), five(*shape, seed=9), factors), encode, label)
      for label, shape, factors in (("many", (1, 9), FACTORS), ("three images", (3, 2), torch.ones(5)), ("small factors", (2, 2),
          FACTORS / 10))],
    *[case("npu_rotated_box_decode", (five(*shape), rand(shape[0], 5, shape[1]) / 2, factors), decode, label)
      for label, shape, factors in (("many", (1, 9), FACTORS), ("three images", (3, 2), torch.ones(5)), ("large factors", (2, 2),
          FACTORS * 10))],
]
CODE = (0.1, -0.2, 0.3, -0.4, 0.5, 2.0, 0.25, 4.0)
CODING = [
    *[case("npu_bounding_box_encode", (a, b, *code), encode_loop, label)
      for label, a, b, code in (("many", MANY, OTHERS, CODE), ("themselves", SAME, SAME, (0.0,) * 4 + (1.0,) * 4), ("apart", *APART,
          CODE))],
    *[case("npu_bounding_box_decode", (MANY, rand(12, 4), *CODE, shape, clip), decode_loop, label)
      for label, shape, clip in (("many", [40, 30], 0.01), ("hardly clipped", [], 1e-4), ("a small image", [4, 6], 0.5))],
    *[case("npu_anchor_response_flags", args, answered, label) for label, args in {
        "many": (MANY * 4, [12, 12], [8, 8], 3), "one cell": (torch.tensor([[0.0, 0, 6, 6]]), [1, 1], [8, 8], 5),
        "wide cells": (torch.tensor([[0.0, 0, 8, 8], [40, 4, 60, 8]]), [2, 2], [32, 16], 2)}.items()],
    *[case("npu_yolo_boxes_encode", (a, b, torch.tensor(s)), yolo_loop, label)
      for label, a, b, s in (("many", MANY, MANY + 0.25, [2, 4] * 6), ("themselves", SAME, SAME, [1, 8, 3]), ("far", SAME, SAME + 9, [4,
          4, 4]))],
    *[case("npu_grid_assign_positive", (*ASSIGN, count, high, low, every), assigned, label)
      for label, count, high, low, every in (("one truth", 1, 0.5, 0.0, False), ("none", 0, 0.8, 0.0, True), ("low", 3, 0.99, 0.5, False))],
]
SUPPRESSION = [
    *[case("npu_nms_with_mask", (falling(boxes), threshold), with_mask, label)
      for label, boxes, threshold in (("many", MANY, 0.1), ("apart", APART[0], 0.5), ("nothing hidden", MANY, 1.0))],
    *[case("npu_nms_v4", (MANY, SHUFFLED[:12], count, torch.tensor(t), torch.tensor(low), pad), nms_v4, label)
      for label, count, t, low, pad in (("twelve", 12, 0.05, 0.0, True), ("high scores", 5, 0.5, 0.7, True))],
    *[case("npu_batch_nms", args, batch_nms, label) for label, args in {
        "three classes": (random_boxes(18, seed=2).view(1, 6, 3, 4), torch.rand(1, 6, 3, generator=torch.Generator().manual_seed(2)), 0.1,
            0.3, 3, 9),
        "nothing hidden": (MANY.view(1, 12, 1, 4), SHUFFLED[:12].view(1, 12, 1), 0.0, 1.0, 12, 12)}.items()],
]
PS = torch.tensor([[[0.0, 0, 0], [0, 2, 1], [1, 0, 4], [5, 7, 8], [6, 4, 8]]])
ODD = (rand(1, 2, 5, 4), rand(3, 2, 1, 1), rand(1, 3, 5, 4), rand(3), [1, 1], [1] * 4, [0] * 4, [1] * 4, 1, 1)
STRIDED = (rand(1, 3, 6, 6), rand(2, 3, 2, 2), rand(1, 12, 3, 3), rand(2), [2, 2], [1, 1, 2, 2], [0] * 4, [1] * 4, 1, 1)
PAIRED = (rand(2, 4, 4, 4), rand(4, 2, 3, 3), rand(2, 54, 4, 4), rand(4), [3, 3], [1] * 4, [1] * 4, [1] * 4, 2, 2)
REGIONS = [
    *[case("npu_roi_alignbk", (rand(2, c, h, w), boxes, [2, c, *size], w, h, scale, samples, mode), roi_gradient, label)
      for label, c, h, w, boxes, size, scale, samples, mode in (("one bin", 1, 1, 1, ROIS[:2], (9, 8), 0.5, 2, 2), ("three samples", 2, 2,
          3, ROIS[1:],
                                                                 (8, 7), 0.25, 3, 0), ("whole", 2, 3, 2, ROIS[:2], (16, 15), 1.0, 1, 1))],
    *[case("npu_ps_roi_pooling", (rand(1, c * s * s, 7, 6), PS, scale, s, c), ps_roi, label)
      for label, c, s, scale in (("three regions", 1, 2, 1.0), ("four bins", 2, 4, 0.5), ("small", 3, 1, 0.1))],
    *[case("npu_ps_roi_pooling_backward", (rand(3, c, s, s), PS, scale, s, c, [7, 6]), ps_roi_gradient, label)
      for label, c, s, scale in (("three regions", 1, 2, 1.0), ("four bins", 2, 4, 0.5), ("small", 3, 1, 0.1))],
    *[case("npu_deformable_conv2d", args, deformed, label) for label, args in {"one by one": ODD, "strides": STRIDED,
        "two groups": PAIRED}.items()],
    *[case("npu_deformable_conv2dbk", (args[0], rand(*deformed(*args)[0].shape, seed=4), deformed(*args)[1], *args[1:3], *args[4:]),
           deformed_gradients, label) for label, args in {"one by one": ODD, "strides": STRIDED, "two groups": PAIRED}.items()],
]
CASES = [*OVERLAP, *CODING, *SUPPRESSION, *REGIONS]
