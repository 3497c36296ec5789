"""Non-maximum suppression."""

import torch

from torch_npu.custom_ops.boxes import overlap


@torch.library.custom_op("npu::_fused_survivors", mutates_args=())
def _survivors(covers: torch.Tensor, among: torch.Tensor) -> torch.Tensor:
    """An operator of its own: how often it iterates depends on the boxes, which a compiled graph cannot follow."""
    keep = among
    while True:
        following = among & ~(covers & keep.unsqueeze(1)).any(0)
        if torch.equal(following, keep):
            return following  # not an argument
        keep = following


@_survivors.register_fake
def _(covers, among):
    return torch.empty_like(among)


def survivors(boxes, threshold: float, among=None):
    """Which boxes (of those `among`), sorted by falling score, overlap no surviving better one by more than the threshold.

    Greedy suppression is the one fixed point of "no surviving earlier box overlaps": iterating reaches it in as many rounds as
    the longest chain of suppressions, far fewer than there are boxes.
    """
    covers = (overlap(boxes.unsqueeze(1), boxes)[0] > threshold).triu(1)
    return _survivors(covers, torch.ones(boxes.shape[0], dtype=torch.bool, device=boxes.device) if among is None else among)


def npu_nms_with_mask(input, iou_threshold):
    """(boxes, their numbers, mask of survivors) of rows x1 y1 x2 y2 score, sorted by falling score."""
    order = torch.arange(input.shape[0], dtype=torch.int32, device=input.device)
    return input.clone(), order, survivors(input[:, :4], float(iou_threshold)).to(torch.uint8)


def _first(mask, count: int):
    """Numbers of the first `count` True entries; behind them, those of False ones."""
    return torch.argsort(~mask, stable=True)[:count]


def npu_nms_v4(self, scores, max_output_size, iou_threshold, scores_threshold, pad_to_max_output_size=False):
    """(numbers of the surviving boxes by falling score, filled up with zeros, pad_to_max_output_size or not; how many)."""
    count = int(max_output_size)
    best, order = scores.sort(descending=True)
    passed = best > scores_threshold
    keep = survivors(self[order].masked_fill(~passed.unsqueeze(1), 0.0), float(iou_threshold)) & passed
    chosen = _first(keep, count)
    valid = keep.sum().clamp(max=count).to(torch.int32)
    numbers = order[chosen].masked_fill(~keep[chosen], 0).to(torch.int32)
    return torch.nn.functional.pad(numbers, [0, count - numbers.numel()]), valid


def npu_batch_nms(self, scores, score_threshold, iou_threshold, max_size_per_class, max_total_size, change_coordinate_frame=False,
                  transpose_box=False):
    """(boxes, scores, classes, how many) per image, of boxes [batch, n, classes or 1, 4] and scores [batch, n, classes]."""
    if change_coordinate_frame or transpose_box:
        raise NotImplementedError("npu_batch_nms does not support change_coordinate_frame and transpose_box")
    if self.shape[0] == 0:
        own = scores.new_zeros(0, max_total_size)
        return self.new_zeros(0, max_total_size, 4), own, own.clone(), own.new_zeros(0, dtype=torch.int32)
    results = [_one_image(b, s, score_threshold, iou_threshold, max_size_per_class, max_total_size) for b, s in zip(self, scores)]
    return tuple(torch.stack(parts) for parts in zip(*results))


def _one_image(boxes, scores, score_threshold, iou_threshold, per_class, total):
    found_boxes, found_scores, found_classes = [], [], []
    for index in range(scores.shape[1]):
        own = boxes[:, index if boxes.shape[1] > 1 else 0]
        best, order = scores[:, index].sort(descending=True)
        passed = best > score_threshold
        keep = survivors(own[order].masked_fill(~passed.unsqueeze(1), 0.0), iou_threshold) & passed
        chosen = _first(keep, per_class)
        found_boxes.append(own[order[chosen]])
        found_scores.append(best[chosen].masked_fill(~keep[chosen], 0.0))
        found_classes.append(torch.full_like(best[chosen], index))
    best, order = torch.cat(found_scores).sort(descending=True)
    best, order = best[:total], order[:total]
    valid = best > 0
    out_boxes = torch.cat(found_boxes)[order] * valid.unsqueeze(1)
    out_classes = torch.cat(found_classes)[order] * valid
    missing = total - best.numel()
    pad = torch.nn.functional.pad
    return (pad(out_boxes, [0, 0, 0, missing]), pad(best * valid, [0, missing]), pad(out_classes, [0, missing]),
            valid.sum().to(torch.int32))
