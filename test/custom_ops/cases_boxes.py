"""Gradients of overlaps and of pooling, rotated boxes, assignment of anchors: loops, clipped polygons, autograd of a reference."""

import math

import torch
from cases import Case, rand
from detection_cases import bins, roi_align


def overlap_of(kind, boxes, others, trans):
    """GIoU, DIoU or CIoU of column i with column i, by torch's autograd in float64."""

    def corners(t):
        x, y, w, h = t.double()
        return (x - w / 2, y - h / 2, x + w / 2, y + h / 2) if trans else (x, y, w, h)

    (ax, ay, az, at), (bx, by, bz, bt) = corners(boxes), corners(others)
    common = (torch.minimum(az, bz) - torch.maximum(ax, bx)).clamp(min=0) * (torch.minimum(at, bt) - torch.maximum(ay, by)).clamp(min=0)
    union = (az - ax) * (at - ay) + (bz - bx) * (bt - by) - common
    width, height = torch.maximum(az, bz) - torch.minimum(ax, bx), torch.maximum(at, bt) - torch.minimum(ay, by)
    iou = common / union
    if kind == "giou":
        return iou - 1 + union / (width * height)
    diou = iou - ((ax + az - bx - bz) ** 2 + (ay + at - by - bt) ** 2) / 4 / (width**2 + height**2)
    if kind == "diou":
        return diou
    angle = torch.atan((bz - bx) / (bt - by)) - torch.atan((az - ax) / (at - ay))
    aspect = 4 / math.pi**2 * angle**2
    return diou - aspect * (aspect / (1 - iou + aspect)).detach()


def backward(kind):
    def reference(grad, boxes, others, *rest, **kwargs):
        trans = (*rest, False)[1 if kind == "ciou" else 0] if rest else False
        a, b = (t.double().clone().requires_grad_() for t in (boxes, others))
        return tuple(g.float() for g in torch.autograd.grad(overlap_of(kind, a, b, trans), (a, b), grad.double().flatten()))

    return reference


CENTRES = torch.tensor([[5.0, 7, 9, 4, 6], [5, 6, 8, 4, 12], [4, 3, 5, 6, 2], [3, 5, 4, 2, 6]])
NEAR = CENTRES + torch.tensor([[1.0, -1, 0.5, 2, 9], [0.5, 1, -1, 1.5, -3], [0.5, 1, -1, 0.7, 1], [1, -0.5, 0.3, 1, 2]])
CORNERS = torch.cat([CENTRES[:2] - CENTRES[2:] / 2, CENTRES[:2] + CENTRES[2:] / 2])
NEAR_CORNERS = torch.cat([NEAR[:2] - NEAR[2:] / 2, NEAR[:2] + NEAR[2:] / 2])
SEED = rand(1, 5)


def ciou_pair(a, b, trans, cross):
    (ax, ay, az, at), (bx, by, bz, bt) = a.double(), b.double()
    if trans:
        aw, ah, bw, bh = az, at, bz, bt
    else:
        aw, ah, bw, bh = az - ax, at - ay, bz - bx, bt - by
    if not cross:
        return overlap_of("ciou", a, b, trans)[None].float(), (torch.atan(bw / bh) - torch.atan(aw / ah))[None].float()
    n, m = a.shape[1], b.shape[1]
    every = torch.stack([overlap_of("ciou", a, b[:, j : j + 1].expand(4, n), trans) for j in range(m)])
    return every.float(), (torch.atan(bw / bh)[:, None] - torch.atan(aw / ah)[None]).float()


def corners_of(box):
    x, y, w, h, angle = (float(v) for v in box)
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    return [(x + c * u - s * v, y + s * u + c * v) for u, v in ((-w / 2, -h / 2), (w / 2, -h / 2), (w / 2, h / 2), (-w / 2, h / 2))]


def area_of(points):
    return abs(sum(p[0] * q[1] - p[1] * q[0] for p, q in zip(points, points[1:] + points[:1]))) / 2


def clipped(subject, clip):
    """What of a polygon lies within a convex one: cut by one edge after the other."""
    for (ax, ay), (bx, by) in zip(clip, clip[1:] + clip[:1]):
        side = [(bx - ax) * (y - ay) - (by - ay) * (x - ax) for x, y in subject]
        kept = []
        for i, (p, d) in enumerate(zip(subject, side)):
            q, e = subject[i - 1], side[i - 1]
            if (d >= 0) != (e >= 0):
                t = e / (e - d)
                kept.append((q[0] + t * (p[0] - q[0]), q[1] + t * (p[1] - q[1])))
            if d >= 0:
                kept.append(p)
        subject = kept
        if not subject:
            return []
    return subject


def centred(box, trans):
    x1, y1, x2, y2, angle = box.tolist()
    return [(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1, angle] if trans else box.tolist()


def common(a, b, trans=False):
    pieces = clipped(corners_of(centred(a, trans)), corners_of(centred(b, trans)))
    return area_of(pieces) if pieces else 0.0


def rotated_overlaps(a, b, trans=False):
    return torch.tensor([[[common(p, q, trans) for q in others] for p in boxes] for boxes, others in zip(a, b)])


def rotated_iou(a, b, trans=False, mode=0):
    def one(p, q):
        (*_, w, h, _), (*_, u, v, _) = centred(p, trans), centred(q, trans)
        area = common(p, q, trans)
        return area / (w * h if mode else w * h + u * v - area)

    return torch.tensor([[[one(p, q) for q in others] for p in boxes] for boxes, others in zip(a, b)])


def nms_rotated(boxes, scores, threshold, low=0.0, most=-1, mode=0):
    if mode:
        boxes = torch.tensor([[*centred(b, True)[:4], -float(b[4])] for b in boxes])
    keep = []
    for i in scores.argsort(descending=True).tolist():
        if scores[i] > low and all(rotated_iou(boxes[None, i : i + 1], boxes[None, k : k + 1]).item() <= threshold for k in keep):
            keep.append(i)
    keep = keep if most < 0 else keep[:most]
    return torch.tensor(keep, dtype=torch.int32), torch.tensor([len(keep)], dtype=torch.int32)


def rotated(*shape, seed=0):
    values = torch.rand(*shape, 5, generator=torch.Generator().manual_seed(seed))
    return torch.cat([values[..., :2] * 12, values[..., 2:4] * 8 + 1, values[..., 4:] * 360 - 180], -1)


def to_corners(boxes):
    return torch.cat([boxes[..., :2] - boxes[..., 2:4] / 2, boxes[..., :2] + boxes[..., 2:4] / 2, boxes[..., 4:]], -1)


FEW, OTHER = rotated(2, 4), rotated(2, 3, seed=1)
MANY, SCORES = rotated(18, seed=2), torch.rand(18, generator=torch.Generator().manual_seed(3))
BOXES5 = to_corners(FEW).transpose(1, 2).contiguous()
TRUTHS5 = to_corners(rotated(2, 4, seed=4)).transpose(1, 2).contiguous()
FACTORS = torch.tensor([1.0, 2.0, 0.5, 1.5, 3.0])


def encode(anchors, truths, weight):
    out = torch.empty_like(anchors)
    for b in range(anchors.shape[0]):
        for i in range(anchors.shape[2]):
            ax, ay, az, at, ad = anchors[b, :, i].tolist()
            gx, gy, gz, gt, gd = truths[b, :, i].tolist()
            out[b, :, i] = (
                torch.tensor(
                    [
                        ((gx + gz) - (ax + az)) / 2 / (az - ax),
                        ((gy + gt) - (ay + at)) / 2 / (at - ay),
                        math.log((gz - gx) / (az - ax)),
                        math.log((gt - gy) / (at - ay)),
                        math.tan(math.radians(gd)) - math.tan(math.radians(ad)),
                    ]
                )
                * weight
            )
    return out


def decode(anchors, deltas, weight):
    out = torch.empty_like(anchors)
    for b in range(anchors.shape[0]):
        for i in range(anchors.shape[2]):
            ax, ay, az, at, ad = anchors[b, :, i].tolist()
            dx, dy, dw, dh, dt = (deltas[b, :, i] / weight).tolist()
            x, y, w, h = (ax + az) / 2 + dx * (az - ax), (ay + at) / 2 + dy * (at - ay), (az - ax) * math.exp(dw), (at - ay) * math.exp(dh)
            out[b, :, i] = torch.tensor(
                [x - w / 2, y - h / 2, x + w / 2, y + h / 2, math.degrees(math.atan(math.tan(math.radians(ad)) + dt))]
            )
    return out


ROIS = torch.tensor([[0.0, 1, 2, 9, 10], [1, 0, 0, 5, 4]])


def roi_gradient(grad, rois, shape, width, height, scale, samples, mode=1):
    features = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
    result = roi_align(features, rois.double(), scale, height, width, samples, mode)
    return torch.autograd.grad(result, features, grad.double())[0].float()


def ps_roi_gradient(grad, rois, scale, size, channels, input_size):
    """Every pixel of a bin gets its share."""
    out = torch.zeros(rois.shape[0], size * size * channels, *input_size)
    for place, plane, pixels in bins(rois, scale, size, channels, *input_size):
        for pixel in pixels:
            out[(*plane, *pixel)] += grad[place] / len(pixels)
    return out


PS_ROIS = torch.tensor([[[0.0, 0], [0, 2], [1, 0], [5, 7], [6, 4]], [[1, 1], [2, 0], [0, 3], [7, 5], [4, 7]]])


def assigned(start, overlaps, flags, best, best_truth, truth_best, truth_anchor, count, high, low, every):
    out = start.clone()
    for i in range(len(start)):
        if flags[i] and best[i] > high:
            out[i] = best_truth[i] + 1
    for g in range(min(count, len(overlaps))):
        if truth_best[g] > low:
            for i in range(len(start)) if every else [int(truth_anchor[g])]:
                if flags[i] and (not every or overlaps[g, i] == truth_best[g]):
                    out[i] = g + 1
    return out


OVERLAPS = torch.rand(3, 9, generator=torch.Generator().manual_seed(7))
ASSIGN = (
    torch.zeros(9),
    OVERLAPS,
    torch.tensor([1, 1, 0, 1, 1, 0, 1, 1, 1], dtype=torch.uint8),
    OVERLAPS.max(0)[0],
    OVERLAPS.max(0)[1].int(),
    OVERLAPS.max(1)[0],
    OVERLAPS.max(1)[1].int(),
)

CASES = [
    Case("_npu_ciou", (CENTRES, NEAR, True, False), lambda a, b, t, c: ciou_pair(a, b, t, c)),
    Case("_npu_ciou", (CORNERS, NEAR_CORNERS[:, :3]), lambda a, b: ciou_pair(a, b, False, True), label="cross"),
    Case("npu_ciou", (CORNERS, NEAR_CORNERS[:, :3]), lambda a, b: ciou_pair(a, b, False, True)[0], label="cross of two sizes"),
    Case("npu_giou_backward", (SEED.t(), CENTRES, NEAR, True), backward("giou")),
    Case("npu_giou_backward", (SEED.t(), CORNERS, NEAR_CORNERS), backward("giou"), label="corners"),
    Case("npu_diou_backward", (SEED, CENTRES, NEAR, True), backward("diou")),
    Case("npu_diou_backward", (SEED, CORNERS, NEAR_CORNERS), backward("diou"), label="corners"),
    Case("npu_ciou_backward", (SEED, CENTRES, NEAR, None, True, False), backward("ciou")),
    Case("npu_ciou_backward", (SEED, CORNERS, NEAR_CORNERS, SEED, False, False), backward("ciou"), label="corners"),
    Case("npu_rotated_overlaps", (FEW, OTHER), rotated_overlaps),
    Case("npu_rotated_overlaps", (to_corners(FEW), to_corners(OTHER), True), rotated_overlaps, label="corners"),
    Case("npu_rotated_iou", (FEW, OTHER), rotated_iou),
    Case("npu_rotated_iou", (FEW, FEW), rotated_iou, label="the same"),
    Case("npu_rotated_iou", (FEW, OTHER, False, 1), rotated_iou, label="over the first"),
    Case("npu_rotated_iou", (to_corners(FEW), to_corners(OTHER), True), rotated_iou, label="corners"),
    Case("npu_rotated_box_encode", (BOXES5, TRUTHS5, torch.ones(5)), encode),
    Case("npu_rotated_box_encode", (BOXES5, TRUTHS5, FACTORS), encode, label="weights"),
    Case("npu_rotated_box_decode", (BOXES5, rand(2, 5, 4), torch.ones(5)), decode),
    Case("npu_rotated_box_decode", (BOXES5, rand(2, 5, 4), FACTORS), decode, label="weights"),
    Case("npu_roi_alignbk", (rand(2, 3, 4, 5), ROIS, [2, 3, 12, 11], 5, 4, 0.5, 2), roi_gradient),
    Case("npu_roi_alignbk", (rand(2, 3, 4, 5), ROIS, [2, 3, 12, 11], 5, 4, 0.5, 2, 0), roi_gradient, label="mode 0"),
    Case("npu_roi_alignbk", (rand(2, 3, 4, 5), ROIS, [2, 3, 12, 11], 5, 4, 1.0, 0, 2), roi_gradient, label="mode 2"),
    Case("npu_ps_roi_pooling_backward", (rand(4, 2, 3, 3), PS_ROIS, 0.5, 3, 2, [6, 7]), ps_roi_gradient),
    Case("npu_grid_assign_positive", (*ASSIGN, 3, 0.5, 0.0, True), assigned),
    Case("npu_grid_assign_positive", (*ASSIGN, 3, 0.9, 0.0, False), assigned, label="first"),
    Case("npu_grid_assign_positive", (*ASSIGN, 2, 2.0, 0.98, True), assigned, label="limits"),
]
