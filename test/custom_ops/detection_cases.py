"""Cases for boxes, suppression and sampling, with straightforward loops as references."""

import math

import torch
from cases import Case, rand

BOXES = torch.tensor([[0.0, 0, 4, 4], [1, 1, 5, 5], [10, 10, 14, 15], [2, 0, 6, 3]])
TRUTHS = torch.tensor([[0.0, 0, 4, 5], [9, 9, 13, 14]])


def iou_loop(a, b, extra=0.0):
    result = torch.zeros(len(a), len(b))
    for i, p in enumerate(a.tolist()):
        for j, q in enumerate(b.tolist()):
            w = max(0.0, min(p[2], q[2]) - max(p[0], q[0]) + extra)
            h = max(0.0, min(p[3], q[3]) - max(p[1], q[1]) + extra)
            areas = [(r[2] - r[0] + extra) * (r[3] - r[1] + extra) for r in (p, q)]
            result[i, j] = w * h / (sum(areas) - w * h)
    return result


def paired(kind, boxes, others):
    """GIoU, DIoU or CIoU of box i with other i, [1, n]."""
    result = []
    for p, q, iou in zip(boxes.tolist(), others.tolist(), iou_loop(boxes, others).diagonal().tolist()):
        ew, eh = max(p[2], q[2]) - min(p[0], q[0]), max(p[3], q[3]) - min(p[1], q[1])
        areas = [(r[2] - r[0]) * (r[3] - r[1]) for r in (p, q)]
        union = sum(areas) / (1 + iou)
        distance = ((p[0] + p[2] - q[0] - q[2]) ** 2 + (p[1] + p[3] - q[1] - q[3]) ** 2) / 4 / (ew * ew + eh * eh)
        angle = 4 / math.pi**2 * (math.atan((q[2] - q[0]) / (q[3] - q[1])) - math.atan((p[2] - p[0]) / (p[3] - p[1]))) ** 2
        result.append({"giou": iou - (ew * eh - union) / (ew * eh), "diou": iou - distance,
                       "ciou": iou - distance - angle * angle / (1 - iou + angle)}[kind])
    return torch.tensor([result])


OTHERS = BOXES[[1, 0, 2, 0]] + 0.5
ANCHORS = torch.tensor([[1.0, 2, 3, 4], [3, 4, 5, 6]])
MOVED = torch.tensor([[5.0, 6, 7, 8], [7, 8, 9, 6]])
CODE = (0.0, 0.0, 0.0, 0.0)

BOX_CASES = [
    Case("npu_iou", (BOXES, TRUTHS), lambda b, g: iou_loop(g, b), grad=(0,)),
    Case("npu_ptiou", (BOXES, TRUTHS), lambda b, g: iou_loop(g, b, 1.0), grad=(0,)),
    Case("npu_giou", (BOXES.t(), OTHERS.t()), lambda a, b: paired("giou", a.t(), b.t())),
    Case("npu_giou", (BOXES.t(), OTHERS.t(), False, True), lambda a, b, t, c: torch.cat(
        [paired("giou", box.expand(len(b.t()), 4), b.t()) for box in a.t()]), label="cross"),
    Case("npu_diou", (BOXES.t(), OTHERS.t()), lambda a, b: paired("diou", a.t(), b.t())),
    Case("npu_ciou", (BOXES.t(), OTHERS.t(), False, False), lambda a, b, t, c: paired("ciou", a.t(), b.t())),
    # The numbers of the two coders are those of the operators' documented examples.
    Case("npu_bounding_box_encode", (ANCHORS, MOVED, *CODE, 0.1, 0.1, 0.2, 0.2),
         lambda *_: torch.tensor([[13.3333, 13.3333, 0.0, 0.0], [13.3333, 6.6667, 0.0, -5.4931]])),
    Case("npu_bounding_box_decode", (ANCHORS, MOVED, *CODE, 1.0, 1.0, 1.0, 1.0, [10, 10], 0.1),
         lambda *_: torch.tensor([[2.5, 6.5, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]])),
    Case("npu_anchor_response_flags", (torch.tensor([[0.0, 0, 20, 20], [30, 10, 50, 30]]), [4, 4], [16, 16], 3),
         lambda b, f, s, n: torch.tensor([0 if i // 3 not in (0, 6) else 1 for i in range(48)], dtype=torch.uint8)),
    Case("npu_yolo_boxes_encode", (ANCHORS, ANCHORS + 1.0, torch.tensor([4, 4])),
         lambda a, g, s: torch.tensor([[0.75, 0.75, 0.0, 0.0]] * 2)),
]


def greedy(boxes, threshold):
    """Which boxes, given by falling score, survive."""
    ious, keep = iou_loop(boxes, boxes), []
    for i in range(len(boxes)):
        if all(ious[i, j] <= threshold for j in keep):
            keep.append(i)
    return keep


def random_boxes(n, seed=0):
    corner = rand(n, 2, seed=seed).abs() * 5
    return torch.cat([corner, corner + 1 + rand(n, 2, seed=seed + 9).abs() * 4], 1)


MANY = random_boxes(40)
FALLING = torch.linspace(1, 0.1, 40)
SHUFFLED = FALLING[torch.randperm(40, generator=torch.Generator().manual_seed(1))]


def nms_v4(boxes, scores, count, threshold, low, pad):
    order = scores.argsort(descending=True)
    order = order[scores[order] > low]
    chosen = order[greedy(boxes[order], float(threshold))][:count]
    return torch.cat([chosen, chosen.new_zeros(count - len(chosen))]).int(), torch.tensor(len(chosen), dtype=torch.int32)


def batch_nms(boxes, scores, low, threshold, per_class, total):
    found = []
    for c in range(scores.shape[2]):
        order = scores[0, :, c].argsort(descending=True)
        order = order[scores[0, order, c] > low]
        for i in order[greedy(boxes[0, order, 0], threshold)][:per_class].tolist():
            found.append((scores[0, i, c].item(), c, i))
    found = sorted(found, reverse=True)[:total]
    out = torch.zeros(1, total, 4), torch.zeros(1, total), torch.zeros(1, total), torch.tensor([len(found)], dtype=torch.int32)
    for place, (score, c, i) in enumerate(found):
        out[0][0, place], out[1][0, place], out[2][0, place] = boxes[0, i, 0], score, c
    return out


NMS_CASES = [
    Case("npu_nms_with_mask", (torch.cat([MANY, FALLING[:, None]], 1), 0.3), lambda b, t: (
        b, torch.arange(40, dtype=torch.int32), torch.zeros(40, dtype=torch.uint8).index_fill(0, torch.tensor(greedy(b[:, :4], t)), 1))),
    Case("npu_nms_v4", (MANY, SHUFFLED, 20, torch.tensor(0.3), torch.tensor(0.2), True), nms_v4),
    Case("npu_batch_nms", (MANY.view(1, 40, 1, 4), torch.stack([SHUFFLED, SHUFFLED.flip(0) * 0.99], 1)[None], 0.3, 0.4, 10, 15), batch_nms),
]


def bilinear(image, y, x):
    h, w = image.shape[-2:]
    if y < -1 or y > h or x < -1 or x > w:
        return torch.zeros(image.shape[0])
    y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
    y0, x0 = int(y), int(x)
    y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
    fy, fx = y - y0, x - x0
    return ((1 - fy) * (1 - fx) * image[:, y0, x0] + (1 - fy) * fx * image[:, y0, x1] + fy * (1 - fx) * image[:, y1, x0]
            + fy * fx * image[:, y1, x1])


def roi_align(features, rois, scale, ph, pw, samples, mode):
    shift = 0.5 if mode == 2 else 0.0
    out = torch.zeros(len(rois), features.shape[1], ph, pw)
    for n, (image, *box) in enumerate(rois.tolist()):
        x1, y1, x2, y2 = (v * scale - shift for v in box)
        w, h = (x2 - x1, y2 - y1) if mode == 2 else (max(x2 - x1, 1.0), max(y2 - y1, 1.0))
        rows, columns = (samples, samples) if samples else (math.ceil(h / ph), math.ceil(w / pw))
        for i in range(ph):
            for j in range(pw):
                points = [bilinear(features[int(image)], y1 + h / ph * (i + (a + 0.5) / rows), x1 + w / pw * (j + (b + 0.5) / columns))
                          for a in range(rows) for b in range(columns)]
                out[n, :, i, j] = torch.stack(points).mean(0)
    return out


def ps_roi(features, rois, scale, size, channels):
    boxes = rois.transpose(1, 2).reshape(-1, 5)
    out = torch.zeros(len(boxes), channels, size, size)
    h, w = features.shape[-2:]
    for n, (image, *box) in enumerate(boxes.tolist()):
        x1, y1 = round(box[0]) * scale, round(box[1]) * scale
        bw, bh = max((round(box[2]) + 1) * scale - x1, 0.1) / size, max((round(box[3]) + 1) * scale - y1, 0.1) / size
        for i in range(size):
            for j in range(size):
                ys = range(min(max(math.floor(y1 + i * bh), 0), h), min(max(math.ceil(y1 + (i + 1) * bh), 0), h))
                xs = range(min(max(math.floor(x1 + j * bw), 0), w), min(max(math.ceil(x1 + (j + 1) * bw), 0), w))
                for d in range(channels):
                    plane = features[int(image), (d * size + i) * size + j]
                    values = [plane[y, x].item() for y in ys for x in xs]
                    out[n, d, i, j] = sum(values) / len(values) if values else 0.0
    return out


def deform_conv(x, weight, offset, bias, kernel, stride, padding, dilation, groups, dg):
    kh, kw = kernel
    n, c, h, w = x.shape
    oh, ow = offset.shape[-2:]
    shifts = offset.view(n, 3, dg, kh * kw, oh, ow)
    out = torch.zeros(n, weight.shape[0], oh, ow)
    for b in range(n):
        for i in range(oh):
            for j in range(ow):
                column = torch.zeros(c, kh * kw)
                for g in range(dg):
                    part = slice(g * c // dg, (g + 1) * c // dg)
                    for k in range(kh * kw):
                        dx, dy, factor = shifts[b, :, g, k, i, j].tolist()
                        py, px = i * stride[2] - padding[0] + k // kw + dy, j * stride[3] - padding[2] + k % kw + dx
                        column[part, k] = padded_bilinear(x[b, part], py, px) * factor
                out[b, :, i, j] = (weight.flatten(1) @ column.flatten()) + bias
    return out


def padded_bilinear(image, y, x):
    """Zero outside of the image, pixel by pixel."""
    h, w = image.shape[-2:]
    y0, x0 = math.floor(y), math.floor(x)
    total = torch.zeros(image.shape[0])
    for yy, wy in ((y0, 1 - y + y0), (y0 + 1, y - y0)):
        for xx, wx in ((x0, 1 - x + x0), (x0 + 1, x - x0)):
            if 0 <= yy < h and 0 <= xx < w:
                total = total + wy * wx * image[:, yy, xx]
    return total


ROIS = torch.tensor([[0.0, 1, 1, 9, 7], [1, 0, 3, 12, 14], [0, 4.5, 2.5, 8.25, 15]])
ROI_CASES = [
    *(Case("npu_roi_align", (rand(2, 3, 8, 8), ROIS, 0.5, 2, 3, samples, mode), roi_align, label=f"{mode}-{samples}")
      for mode in (0, 2) for samples in (2, 0)),
    Case("npu_ps_roi_pooling", (rand(2, 2 * 9, 8, 8), ROIS.t()[None], 0.5, 3, 2), ps_roi),
]
