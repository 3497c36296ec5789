"""Cases for boxes, suppression and sampling, with straightforward loops as references."""

import math

import torch
from cases import Case, rand

BOXES = torch.tensor([[0.0, 0, 4, 4], [1, 1, 5, 5], [10, 10, 14, 15], [2, 0, 6, 3]])
TRUTHS = torch.tensor([[0.0, 0, 4, 5], [9, 9, 13, 14]])


def areas_of(p, q, extra=0.0):
    return [(r[2] - r[0] + extra) * (r[3] - r[1] + extra) for r in (p, q)]


def iou_loop(a, b, extra=0.0, over_first=False):
    result = torch.zeros(len(a), len(b))
    for i, p in enumerate(a.tolist()):
        for j, q in enumerate(b.tolist()):
            w = max(0.0, min(p[2], q[2]) - max(p[0], q[0]) + extra)
            h = max(0.0, min(p[3], q[3]) - max(p[1], q[1]) + extra)
            areas = areas_of(p, q, extra)
            result[i, j] = w * h / (areas[0] if over_first else sum(areas) - w * h)
    return result


def one_pair(kind, p, q, mode):
    """GIoU, DIoU or CIoU of two boxes in corner form; mode 1: the common area over that of the first."""
    first, second = torch.tensor([p]), torch.tensor([q])
    plain, iou = iou_loop(first, second).item(), iou_loop(first, second, over_first=mode == 1).item()
    ew, eh = max(p[2], q[2]) - min(p[0], q[0]), max(p[3], q[3]) - min(p[1], q[1])
    union = sum(areas_of(p, q)) / (1 + plain)
    distance = ((p[0] + p[2] - q[0] - q[2]) ** 2 + (p[1] + p[3] - q[1] - q[3]) ** 2) / 4 / (ew * ew + eh * eh)
    angle = 4 / math.pi**2 * (math.atan((q[2] - q[0]) / (q[3] - q[1])) - math.atan((p[2] - p[0]) / (p[3] - p[1]))) ** 2
    return {"giou": iou - (ew * eh - union) / (ew * eh), "diou": iou - distance,
            "ciou": iou - distance - angle * angle / (1 - iou + angle)}[kind]


def pair_reference(kind, cross=False):
    """Of boxes [4, n]: [m, n] of all pairs, or [1, n] of box i with other i; GIoU the other way round."""

    def reference(a, b, trans=False, is_cross=cross, mode=0):
        boxes, others = ([corners(*box) if trans else box for box in x.t().tolist()] for x in (a, b))
        pairs = [[(p, q) for p in boxes] for q in others] if is_cross else [list(zip(boxes, others))]
        result = torch.tensor([[one_pair(kind, p, q, mode) for p, q in row] for row in pairs])
        return result.t() if kind == "giou" else result

    return reference


def corners(x, y, w, h):
    return x - w / 2, y - h / 2, x + w / 2, y + h / 2


def encode_loop(anchors, boxes, *code):
    rows = []
    for p, q in zip(anchors.tolist(), boxes.tolist()):
        pw, ph, qw, qh = p[2] - p[0] + 1, p[3] - p[1] + 1, q[2] - q[0] + 1, q[3] - q[1] + 1
        raw = [(q[0] + q[2] - p[0] - p[2]) / 2 / pw, (q[1] + q[3] - p[1] - p[3]) / 2 / ph, math.log(abs(qw / pw)), math.log(abs(qh / ph))]
        rows.append([(v - mean) / std for v, mean, std in zip(raw, code[:4], code[4:])])
    return torch.tensor(rows)


def decode_loop(rois, deltas, *rest):
    code, (shape, clip), rows = rest[:8], rest[8:], []
    for p, d in zip(rois.tolist(), deltas.tolist()):
        dx, dy, dw, dh = (v * std + mean for v, mean, std in zip(d, code[:4], code[4:]))
        limit = abs(math.log(clip))
        w, h = ((p[i + 2] - p[i] + 1) * math.exp(min(max(v, -limit), limit)) for i, v in enumerate((dw, dh)))
        x, y = (p[0] + p[2]) / 2 + dx * (p[2] - p[0] + 1), (p[1] + p[3]) / 2 + dy * (p[3] - p[1] + 1)
        box = [x - w / 2 + 0.5, y - h / 2 + 0.5, x + w / 2 - 0.5, y + h / 2 - 0.5]
        rows.append([min(max(v, 0.0), (shape[1], shape[0])[i % 2] - 1) for i, v in enumerate(box)] if shape else box)
    return torch.tensor(rows)


def yolo_loop(anchors, boxes, strides):
    rows = []
    for p, q, stride in zip(anchors.tolist(), boxes.tolist(), strides.tolist()):
        shift = [((q[i] + q[i + 2] - p[i] - p[i + 2]) / 2 / stride + 0.5) for i in (0, 1)]
        ratio = [(q[i + 2] - q[i]) / (p[i + 2] - p[i]) for i in (0, 1)]
        rows.append([min(max(v, 1e-6), 1 - 1e-6) for v in shift] + [math.log(max(v, 1e-6)) for v in ratio])
    return torch.tensor(rows)


OTHERS = BOXES[[1, 0, 2, 0]] + 0.5
ANCHORS = torch.tensor([[1.0, 2, 3, 4], [3, 4, 5, 6]])
MOVED = torch.tensor([[5.0, 6, 7, 8], [7, 8, 9, 6]])
CODE = (0.0, 0.0, 0.0, 0.0)

# Boxes smaller than a pixel, as normalised coordinates are, and as centre and sides; of several shapes.
SMALL, SMALL_OTHERS = BOXES / 40, OTHERS / 40
CENTRES = torch.tensor([[0.3, 0.4, 0.2, 0.5], [1.0, 2.0, 3.0, 1.0], [4.0, 4.0, 0.5, 2.0]])
CENTRES_OTHERS = torch.tensor([[0.35, 0.3, 0.4, 0.3], [2.0, 2.5, 2.0, 2.5], [4.2, 5.0, 2.0, 3.0]])
ROWS = torch.tensor([[1.0, 2, 13, 9], [3, 4, 8, 16], [20, 0, 31, 5]])
DELTAS = torch.tensor([[0.5, -0.3, 0.2, 0.7], [-1.0, 0.4, -0.6, 0.3], [2.0, 1.5, -3.0, 3.0]])

BOX_CASES = [
    Case("npu_iou", (BOXES, TRUTHS), lambda b, g: iou_loop(g, b), grad=(0,)),
    Case("npu_iou", (BOXES, TRUTHS, 1), lambda b, g, m: iou_loop(g, b, over_first=True), label="over_truth"),
    Case("npu_ptiou", (BOXES, TRUTHS), lambda b, g: iou_loop(g, b, 1.0), grad=(0,)),
    Case("npu_ptiou", (BOXES, TRUTHS, 1), lambda b, g, m: iou_loop(g, b, 1.0, over_first=True), label="over_truth"),
    Case("npu_giou", (BOXES.t(), OTHERS.t()), pair_reference("giou")),
    Case("npu_diou", (BOXES.t(), OTHERS.t()), pair_reference("diou")),
    Case("npu_ciou", (BOXES.t(), OTHERS[:3].t()), pair_reference("ciou", cross=True)),
    *(Case(f"npu_{kind}", (a.t(), b.t(), *options), pair_reference(kind), label=label) for kind in ("giou", "diou", "ciou")
      for label, a, b, options in (("paired", BOXES, OTHERS, (False, False)), ("cross", SMALL, SMALL_OTHERS[:3], (False, True)),
                                   ("centres", CENTRES, CENTRES_OTHERS, (True, False)), ("over_first", BOXES, OTHERS, (False, False, 1)))),
    # The numbers of the two coders are those of the operators' documented examples.
    Case("npu_bounding_box_encode", (ANCHORS, MOVED, *CODE, 0.1, 0.1, 0.2, 0.2),
         lambda *_: torch.tensor([[13.3333, 13.3333, 0.0, 0.0], [13.3333, 6.6667, 0.0, -5.4931]])),
    Case("npu_bounding_box_encode", (ROWS, ROWS.flip(0) + 0.5, 0.1, -0.2, 0.3, -0.4, 0.5, 2.0, 0.25, 4.0), encode_loop, label="normalised"),
    Case("npu_bounding_box_decode", (ANCHORS, MOVED, *CODE, 1.0, 1.0, 1.0, 1.0, [10, 10], 0.1),
         lambda *_: torch.tensor([[2.5, 6.5, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]])),
    *(Case("npu_bounding_box_decode", (ROWS, DELTAS, 0.1, -0.2, 0.3, -0.4, 0.5, 2.0, 0.25, 4.0, shape, 0.2), decode_loop, label=label)
      for label, shape in (("clipped", [12, 20]), ("everywhere", []))),
    Case("npu_anchor_response_flags", (torch.tensor([[0.0, 0, 20, 20], [30, 10, 50, 30]]), [4, 4], [16, 16], 3),
         lambda b, f, s, n: torch.tensor([0 if i // 3 not in (0, 6) else 1 for i in range(48)], dtype=torch.uint8)),
    # The centre (40, 14) is in column 40 / 8 and row 14 / 4 of six columns and five rows.
    Case("npu_anchor_response_flags", (torch.tensor([[30.0, 8, 50, 20]]), [5, 6], [8, 4], 2),
         lambda b, f, s, n: torch.tensor([int(i // 2 == 3 * 6 + 5) for i in range(60)], dtype=torch.uint8), label="oblong"),
    Case("npu_yolo_boxes_encode", (ANCHORS, ANCHORS + 1.0, torch.tensor([4, 4])),
         lambda a, g, s: torch.tensor([[0.75, 0.75, 0.0, 0.0]] * 2)),
    Case("npu_yolo_boxes_encode", (ROWS, ROWS * torch.tensor([1.0, 1, 1.1, 0.9]), torch.tensor([4, 8, 1])), yolo_loop, label="strides"),
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
    n = len(boxes)
    out = torch.zeros(n, total, 4), torch.zeros(n, total), torch.zeros(n, total), torch.zeros(n, dtype=torch.int32)
    for image in range(n):
        found = []
        for c in range(scores.shape[2]):
            own = boxes[image, :, c if boxes.shape[2] > 1 else 0]
            order = scores[image, :, c].argsort(descending=True)
            order = order[scores[image, order, c] > low]
            for i in order[greedy(own[order], threshold)][:per_class].tolist():
                found.append((scores[image, i, c].item(), c, own[i]))
        found = sorted(found, key=lambda row: row[0], reverse=True)[:total]
        out[3][image] = len(found)
        for place, (score, c, box) in enumerate(found):
            out[0][image, place], out[1][image, place], out[2][image, place] = box, score, c
    return out


# Overlaps and scores that are just the thresholds: the boxes of each pair overlap by a half.
HALF = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 1], [8, 0, 10, 2], [8, 0, 9, 2]])
EXACT = torch.tensor([0.5, 1.0, 0.75, 0.25])
TWO = torch.stack([MANY[:20].view(20, 1, 4) + torch.tensor([0.0, 1.0]).view(2, 1), random_boxes(40, seed=5).view(20, 2, 4)])
TWO_SCORES = torch.rand(2, 20, 2, generator=torch.Generator().manual_seed(6))

NMS_CASES = [
    Case("npu_nms_with_mask", (torch.cat([MANY, FALLING[:, None]], 1), 0.3), lambda b, t: (
        b, torch.arange(40, dtype=torch.int32), torch.zeros(40, dtype=torch.uint8).index_fill(0, torch.tensor(greedy(b[:, :4], t)), 1))),
    Case("npu_nms_with_mask", (torch.cat([HALF, FALLING[:4, None]], 1), 0.5), lambda b, t: (
        b, torch.arange(4, dtype=torch.int32), torch.ones(4, dtype=torch.uint8)), label="just_the_threshold"),
    Case("npu_nms_v4", (MANY, SHUFFLED, 20, torch.tensor(0.3), torch.tensor(0.2), True), nms_v4),
    Case("npu_nms_v4", (MANY[:6], SHUFFLED[:6], 9, torch.tensor(0.3), torch.tensor(0.2), True), nms_v4, label="filled_up"),
    Case("npu_nms_v4", (MANY, SHUFFLED, 3, torch.tensor(0.3), torch.tensor(0.2)),
         lambda *args: nms_v4(*args, False), label="the_best"),
    Case("npu_nms_v4", (HALF, EXACT, 4, torch.tensor(0.5), torch.tensor(0.5)),
         lambda *_: (torch.tensor([1, 2, 0, 0], dtype=torch.int32), torch.tensor(2, dtype=torch.int32)), label="just_the_threshold"),
    Case("npu_batch_nms", (MANY.view(1, 40, 1, 4), torch.stack([SHUFFLED, SHUFFLED.flip(0) * 0.99], 1)[None], 0.3, 0.4, 10, 15), batch_nms),
    Case("npu_batch_nms", (TWO, TWO_SCORES, 0.25, 0.5, 4, 30), batch_nms, label="boxes_of_each_class"),
    Case("npu_batch_nms", (TWO[:, :, :1], TWO_SCORES, 0.25, 0.5, 30, 3), batch_nms, label="the_best"),
    Case("npu_batch_nms", (HALF.view(1, 4, 1, 4), EXACT.view(1, 4, 1), 0.5, 0.5, 4, 4), batch_nms, label="just_the_threshold"),
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
        extra = scale if mode == 1 else 0.0
        w, h = (x2 - x1, y2 - y1) if mode == 2 else (max(x2 - x1 + extra, 1.0), max(y2 - y1 + extra, 1.0))
        rows, columns = (samples, samples) if samples else (math.ceil(h / ph), math.ceil(w / pw))
        for i in range(ph):
            for j in range(pw):
                points = [bilinear(features[int(image)], y1 + h / ph * (i + (a + 0.5) / rows), x1 + w / pw * (j + (b + 0.5) / columns))
                          for a in range(rows) for b in range(columns)]
                out[n, :, i, j] = torch.stack(points).mean(0)
    return out


def bins(rois, scale, size, channels, h, w):
    """(place in the result, its plane of the features, pixels) of every bin: ((region, channel, i, j), (image, plane), [(y, x)])."""
    for n, (image, *box) in enumerate(rois.transpose(1, 2).reshape(-1, 5).tolist()):
        x1, y1 = round(box[0]) * scale, round(box[1]) * scale
        bw, bh = max((round(box[2]) + 1) * scale - x1, 0.1) / size, max((round(box[3]) + 1) * scale - y1, 0.1) / size
        for i in range(size):
            for j in range(size):
                ys = range(min(max(math.floor(y1 + i * bh), 0), h), min(max(math.ceil(y1 + (i + 1) * bh), 0), h))
                xs = range(min(max(math.floor(x1 + j * bw), 0), w), min(max(math.ceil(x1 + (j + 1) * bw), 0), w))
                for d in range(channels):
                    yield (n, d, i, j), (int(image), (d * size + i) * size + j), [(y, x) for y in ys for x in xs]


def ps_roi(features, rois, scale, size, channels):
    out = torch.zeros(rois.shape[0] * rois.shape[2], channels, size, size)
    for place, plane, pixels in bins(rois, scale, size, channels, *features.shape[-2:]):
        values = [features[plane][pixel].item() for pixel in pixels]
        out[place] = sum(values) / len(values) if values else 0.0
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
OUTER = torch.tensor([[1.0, -5.5, -3, 6.5, 9], [0, 14, 7.5, 40, 30], [0, -9, -9, -3, -2.5], [1, 4, 4, 4, 4], [1, 9.5, 3.5, 2.5, 1]])
ROI_CASES = [
    *(Case("npu_roi_align", (rand(2, 3, 8, 8), ROIS, 0.5, 2, 3, samples, mode), roi_align, label=f"{mode}-{samples}")
      for mode in (0, 2) for samples in (2, 0)),
    # Regions of another feature map: over its edges, a pixel outside of it, further outside, and smaller than a pixel.
    *(Case("npu_roi_align", (rand(2, 3, 6, 9), OUTER, 0.5, 3, 2, samples, mode), roi_align, label=f"outside-{mode}-{samples}")
      for mode, samples in ((1, 3), (0, 1), (1, 0))),
    Case("npu_roi_align", (rand(2, 3, 8, 8), torch.zeros(0, 5), 0.5, 2, 3, 0, 0), lambda *_: torch.zeros(0, 3, 2, 3), label="none-0"),
    Case("npu_ps_roi_pooling", (rand(2, 3 * 4, 6, 9), torch.stack([OUTER, OUTER.flip(0)]).transpose(1, 2).contiguous(), 0.25, 2, 3), ps_roi,
         label="outside"),
    Case("npu_ps_roi_pooling", (rand(2, 2 * 9, 8, 8), ROIS.t()[None], 0.5, 3, 2), ps_roi),
]
