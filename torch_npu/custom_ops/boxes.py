"""Overlap of boxes, and the codings of boxes that detectors learn."""

import math

import torch


def _sides(boxes, extra: float = 0.0):
    return boxes[..., 2] - boxes[..., 0] + extra, boxes[..., 3] - boxes[..., 1] + extra


def overlap(a, b, extra: float = 0.0, over_first: bool = False):
    """(IoU, enclosing box) of boxes x1 y1 x2 y2 that broadcast against each other; over_first divides by the area of `a`.

    extra=1 counts whole pixels, whose last coordinate belongs to the box.
    """
    (aw, ah), (bw, bh) = _sides(a, extra), _sides(b, extra)
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    common = (high - low + extra).clamp(min=0).prod(-1)
    whole = aw * ah if over_first else aw * ah + bw * bh - common
    enclosing = torch.cat([torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:])], -1)
    return common / whole.clamp(min=1e-9), enclosing, whole


def npu_iou(bboxes, gtboxes, mode=0):
    """[ground truths, boxes]; mode 1 divides by the area of the ground truth."""
    return overlap(gtboxes.unsqueeze(1), bboxes, over_first=mode == 1)[0]


def npu_ptiou(bboxes, gtboxes, mode=0):
    """npu_iou in whole pixels."""
    return overlap(gtboxes.unsqueeze(1), bboxes, extra=1.0, over_first=mode == 1)[0]


def _pairs(self, gtboxes, trans: bool, is_cross: bool):
    """Boxes [4, n] as [n, 4] in corner form, against all m ground truths ([m, n]) or each against its own ([1, n])."""
    a, b = self.t(), gtboxes.t()
    if trans:
        a, b = (torch.cat([x[..., :2] - x[..., 2:] / 2, x[..., :2] + x[..., 2:] / 2], -1) for x in (a, b))
    return (a.unsqueeze(0), b.unsqueeze(1)) if is_cross else (a.unsqueeze(0), b.unsqueeze(0))


def _pullback(function, grad, *boxes):
    """Gradients of boxes through function(*boxes), which is computed in float32."""
    with torch.enable_grad():
        leaves = [b.detach().float().requires_grad_() for b in boxes]
        result = function(*leaves)
    gradients = torch.autograd.grad(result, leaves, grad.to(result.dtype).view(result.shape))
    return tuple(g.to(b.dtype) for g, b in zip(gradients, boxes))


def npu_giou(self, gtboxes, trans=False, is_cross=False, mode=0):
    """IoU - (enclosing - union) / enclosing, [n, 1]. trans: boxes are centre and sides. mode 1: over the first box's area."""
    a, b = _pairs(self, gtboxes, trans, is_cross)
    iou, enclosing, _ = overlap(a, b, over_first=mode == 1)
    union = overlap(a, b)[2]
    width, height = _sides(enclosing)
    area = (width * height).clamp(min=1e-9)
    return (iou - (area - union) / area).t()


def npu_giou_backward(grad, bboxes, gtboxes, trans=False, is_cross=False, mode=0):
    """grad is [n, 1] as the result, or [1, n]."""
    if not is_cross:
        grad = grad.reshape(-1, 1)
    return _pullback(lambda a, b: npu_giou(a, b, trans, is_cross, mode), grad, bboxes, gtboxes)


def _distance(a, b, enclosing):
    """Squared distance of the centres over the squared diagonal of the enclosing box."""
    width, height = _sides(enclosing)
    centres = (a[..., :2] + a[..., 2:] - b[..., :2] - b[..., 2:]) / 2
    return centres.square().sum(-1) / (width.square() + height.square()).clamp(min=1e-9)


def npu_diou(self, gtboxes, trans=False, is_cross=False, mode=0):
    a, b = _pairs(self, gtboxes, trans, is_cross)
    iou, enclosing, _ = overlap(a, b, over_first=mode == 1)
    return iou - _distance(a, b, enclosing)


def npu_diou_backward(grad, bboxes, gtboxes, trans=False, is_cross=False, mode=0):
    return _pullback(lambda a, b: npu_diou(a, b, trans, is_cross, mode), grad, bboxes, gtboxes)


def npu_ciou(self, gtboxes, trans=False, is_cross=True, mode=0, atan_sub_flag=False):
    """DIoU less a penalty for another aspect ratio, whose weight is not differentiated."""
    return _npu_ciou(self, gtboxes, trans, is_cross, mode, atan_sub_flag)[0]


def npu_ciou_backward(grad, bboxes, gtboxes, atan_sub, trans=False, is_cross=True, mode=0):
    """atan_sub, the second result of _npu_ciou, is computed again."""
    return _pullback(lambda a, b: npu_ciou(a, b, trans, is_cross, mode), grad, bboxes, gtboxes)


def _npu_ciou(self, gtboxes, trans=False, is_cross=True, mode=0, atan_sub_flag=False):
    """CIoU, and the differences of the angles of the diagonals, which are there whatever atan_sub_flag asks."""
    a, b = _pairs(self, gtboxes, trans, is_cross)
    iou, enclosing, _ = overlap(a, b, over_first=mode == 1)
    (aw, ah), (bw, bh) = _sides(a), _sides(b)
    difference = torch.atan(bw / bh.clamp(min=1e-9)) - torch.atan(aw / ah.clamp(min=1e-9))
    aspect = 4 / math.pi**2 * difference.square()
    weight = (aspect / (1 - iou + aspect).clamp(min=1e-9)).detach()
    return iou - _distance(a, b, enclosing) - weight * aspect, difference


def _centre_form(boxes):
    """Centres and sides [..., 2] of boxes in whole pixels."""
    return (boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2] + 1.0


def npu_bounding_box_encode(anchor_box, ground_truth_box, means0, means1, means2, means3, stds0, stds1, stds2, stds3):
    """Shift of the centre in anchor sides and logarithm of the ratio of sides, normalised."""
    (anchor, anchor_side), (truth, truth_side) = _centre_form(anchor_box), _centre_form(ground_truth_box)
    deltas = torch.cat([(truth - anchor) / anchor_side, (truth_side / anchor_side).abs().log()], 1)
    means, stds = deltas.new_tensor([means0, means1, means2, means3]), deltas.new_tensor([stds0, stds1, stds2, stds3])
    return (deltas - means) / stds


def npu_bounding_box_decode(rois, deltas, means0, means1, means2, means3, stds0, stds1, stds2, stds3, max_shape, wh_ratio_clip):
    """The inverse, clipped to an image of height and width max_shape."""
    means, stds = deltas.new_tensor([means0, means1, means2, means3]), deltas.new_tensor([stds0, stds1, stds2, stds3])
    deltas = deltas * stds + means
    limit = abs(math.log(wh_ratio_clip))
    centre, side = _centre_form(rois)
    centre = centre + side * deltas[..., :2]
    half = side * deltas[..., 2:].clamp(-limit, limit).exp() / 2 - 0.5
    boxes = torch.cat([centre - half, centre + half], 1)
    if not max_shape:
        return boxes
    height, width = max_shape
    return torch.minimum(boxes.clamp(min=0), boxes.new_tensor([width - 1, height - 1] * 2))


def npu_anchor_response_flags(self, featmap_size, stride, num_base_anchors):
    """One byte per anchor of a feature map, one where the centre of a box lies in its cell."""
    height, width = featmap_size
    x = ((self[:, 0] + self[:, 2]) / 2 / stride[0]).floor().long()
    y = ((self[:, 1] + self[:, 3]) / 2 / stride[1]).floor().long()
    flags = torch.zeros(height * width, dtype=torch.uint8, device=self.device)
    flags = flags.index_fill(0, y * width + x, 1)
    return flags.unsqueeze(1).expand(-1, num_base_anchors).reshape(-1)


def npu_yolo_boxes_encode(self, gt_bboxes, stride, performance_mode=False):
    """Shift of the centre within the cell, in (0, 1), and logarithm of the ratio of sides. performance_mode is the precise one always."""
    tiny = 1e-6
    centre, side = (self[:, :2] + self[:, 2:]) / 2, self[:, 2:] - self[:, :2]
    truth, truth_side = (gt_bboxes[:, :2] + gt_bboxes[:, 2:]) / 2, gt_bboxes[:, 2:] - gt_bboxes[:, :2]
    shift = ((truth - centre) / stride.view(-1, 1) + 0.5).clamp(tiny, 1 - tiny)
    return torch.cat([shift, (truth_side / side).clamp(min=tiny).log()], 1)
