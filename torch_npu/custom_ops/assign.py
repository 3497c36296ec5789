"""Which anchors a detector learns from: assignment to ground truths, and random samples."""

import torch


def npu_grid_assign_positive(
    input,
    overlaps,
    box_responsible_flags,
    max_overlaps,
    argmax_overlaps,
    gt_max_overlaps,
    gt_argmax_overlaps,
    num_gts,
    pos_iou_thr,
    min_pos_iou,
    gt_max_assign_all,
):
    """`input` [anchors] with the numbers of their ground truths, counted from 1, where anchors are responsible for one.

    An anchor that overlaps its best ground truth by more than pos_iou_thr gets that one. Then each ground truth gets the anchors that
    overlap it most, if that is more than min_pos_iou: all of them, or the first.
    """
    responsible = box_responsible_flags.bool()
    result = torch.where(responsible & (max_overlaps > pos_iou_thr), (argmax_overlaps + 1).to(input.dtype), input)
    for i in range(min(num_gts, overlaps.shape[0])):
        if gt_max_assign_all:
            chosen = overlaps[i] == gt_max_overlaps[i]
        else:
            chosen = torch.arange(len(input), device=input.device) == gt_argmax_overlaps[i]
        result = torch.where(chosen & responsible & (gt_max_overlaps[i] > min_pos_iou), i + 1.0, result)
    return result.to(input.dtype)


def _generator(device, seed, seed2):
    """That of the device, unless a seed is given."""
    if seed == 0 and seed2 == 0:
        return None
    return torch.Generator(device).manual_seed(seed * 1000003 + seed2)


def npu_random_choice_with_mask(x, count=256, seed=0, seed2=0):
    """(places [count, dimensions] of that many True elements, drawn at random; which rows are such: others are zeros)."""
    if x.dtype != torch.bool or not 1 <= x.dim() <= 5:
        raise TypeError(f"npu_random_choice_with_mask: x must be a bool tensor of 1 to 5 dimensions, got {x.dtype} of {x.dim()}")
    if count <= 0:
        raise ValueError(f"npu_random_choice_with_mask: count must be positive, got {count}")
    keys = torch.rand(x.numel(), generator=_generator(x.device, seed, seed2), device=x.device).masked_fill(~x.reshape(-1), 2.0)
    order = keys.argsort()[:count]
    valid = keys[order] < 2.0
    missing = count - len(order)
    order, valid = torch.nn.functional.pad(order, [0, missing]), torch.nn.functional.pad(valid, [0, missing])
    places = torch.stack(torch.unravel_index(order, x.shape), 1) if x.numel() else order.new_zeros(count, x.dim())
    return torch.where(valid.unsqueeze(1), places, 0).to(torch.int32), valid


def npu_sub_sample(input, per_images, positive_fraction):
    """Labels 1, 0 and -1 (neither) with at most per_images that are 1 or 0, and at most that fraction of them 1: others, chosen at
    random, become -1."""
    most = int(per_images * positive_fraction)
    order = torch.rand(input.shape, device=input.device).argsort()
    shuffled = input[order]
    positive, negative = shuffled == 1, shuffled == 0
    kept = positive & (positive.cumsum(0) <= most)
    kept = kept | negative & (negative.cumsum(0) <= per_images - kept.sum())
    return torch.full_like(input, -1).scatter(0, order, torch.where(kept, shuffled, -1))
