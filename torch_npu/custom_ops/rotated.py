"""Rotated boxes, as aerial images have them: codings, overlaps, suppression. Angles are in degrees."""

import torch

from torch_npu._torchvision.rotated import box_iou_rotated, common_area


def _centre_form(boxes):
    """x1 y1 x2 y2 of [batch, 5, n] as centre and sides [batch, 2, n]."""
    return (boxes[:, :2] + boxes[:, 2:4]) / 2, boxes[:, 2:4] - boxes[:, :2]


def npu_rotated_box_encode(input, gt_bboxes, weight):
    """Shift of the centre in anchor sides, logarithm of the ratio of sides, difference of the tangents; each times its weight."""
    anchors, truths = input.float(), gt_bboxes.float()
    (centre, side), (truth, truth_side) = _centre_form(anchors), _centre_form(truths)
    angle = torch.deg2rad(truths[:, 4:]).tan() - torch.deg2rad(anchors[:, 4:]).tan()
    deltas = torch.cat([(truth - centre) / side, (truth_side / side).log(), angle], 1)
    return (deltas * weight.float().view(1, 5, 1)).to(input.dtype)


def npu_rotated_box_decode(input, deltas, weight):
    """The inverse of npu_rotated_box_encode."""
    anchors, deltas = input.float(), deltas.float() / weight.float().view(1, 5, 1)
    centre, side = _centre_form(anchors)
    centre = centre + side * deltas[:, :2]
    half = side * deltas[:, 2:4].exp() / 2
    angle = torch.rad2deg((torch.deg2rad(anchors[:, 4:]).tan() + deltas[:, 4:]).atan())
    return torch.cat([centre - half, centre + half, angle], 1).to(input.dtype)


def _corners_to_centre(boxes):
    """x1 y1 x2 y2 angle as centre, sides, angle."""
    return torch.cat([(boxes[..., :2] + boxes[..., 2:4]) / 2, boxes[..., 2:4] - boxes[..., :2], boxes[..., 4:]], -1)


def _turned(boxes):
    """The other sense of rotation: torchvision's is counter-clockwise."""
    return torch.cat([boxes[..., :4], -boxes[..., 4:]], -1)


def _areas(boxes, others, trans):
    """(common area [batch, n, k], areas of boxes, areas of others) of boxes [batch, n, 5], whose width has the given angle with x."""
    if boxes.dim() != 3 or others.dim() != 3 or boxes.shape[0] != others.shape[0]:
        raise ValueError(f"rotated boxes must be [batch, n, 5] on both sides, got {list(boxes.shape)} and {list(others.shape)}")
    a, b = boxes.float(), others.float()
    if trans:
        a, b = _corners_to_centre(a), _corners_to_centre(b)
    common = [common_area(_turned(x), _turned(y)) for x, y in zip(a, b)]
    common = torch.stack(common).float() if common else a.new_zeros(0, a.shape[1], b.shape[1])
    return common, a[..., 2] * a[..., 3], b[..., 2] * b[..., 3]


def npu_rotated_overlaps(input, query_boxes, trans=False):
    """Common areas [batch, n, k]; boxes are centre, sides, angle, or with trans corners and angle."""
    return _areas(input, query_boxes, trans)[0].to(input.dtype)


def npu_rotated_iou(input, query_boxes, trans=False, mode=0, is_cross=True, v_threshold=0.0, e_threshold=0.0):
    """Common area over that of the union, with mode 1 over that of the first box."""
    if not is_cross or v_threshold != 0.0 or e_threshold != 0.0:
        raise NotImplementedError(
            "npu_rotated_iou compares all boxes with all others: is_cross must be True, v_threshold and e_threshold 0"
        )
    if mode not in (0, 1):
        raise ValueError(f"npu_rotated_iou: mode must be 0 (over the union) or 1 (over the first box), got {mode}")
    common, first, second = _areas(input, query_boxes, trans)
    whole = first.unsqueeze(2).expand_as(common) if mode == 1 else first.unsqueeze(2) + second.unsqueeze(1) - common
    return torch.where(whole > 0, common / whole.where(whole > 0, 1.0), 0.0).to(input.dtype)


def npu_nms_rotated(input, scores, iou_threshold, scores_threshold=0.0, max_output_size=-1, mode=0):
    """(numbers of the boxes that survive, by falling score; how many). mode 0: boxes are centre, sides and the angle of
    their width with x; mode 1: corners, and the angle in the other sense."""
    if mode not in (0, 1):
        raise ValueError(f"npu_nms_rotated: mode must be 0 or 1, got {mode}")
    boxes = input.float()
    boxes = _corners_to_centre(boxes) if mode == 1 else _turned(boxes)
    order = scores.float().sort(descending=True, stable=True)[1]
    order = order[scores[order] > scores_threshold]
    covers = (box_iou_rotated(boxes[order], boxes[order]) > iou_threshold).triu(1)
    keep = torch.ones(len(order), dtype=torch.bool, device=input.device)
    while True:  # see survivors() in nms.py
        following = ~(covers & keep.unsqueeze(1)).any(0)
        if torch.equal(following, keep):
            break
        keep = following
    chosen = order[keep].to(torch.int32)
    if max_output_size >= 0:
        chosen = chosen[:max_output_size]
    return chosen, torch.full((1,), len(chosen), dtype=torch.int32, device=input.device)
