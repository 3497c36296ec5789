"""Post-processing of detectors: the best boxes of every class, a fixed number of rows."""

import torch

__all__ = ["npu_batched_multiclass_nms", "npu_multiclass_nms"]


def npu_batched_multiclass_nms(multi_bboxes, multi_scores, score_thr=0.05, nms_thr=0.45, max_num=50, score_factors=None):
    """(boxes with scores [batch, max_num, 5], classes [batch, max_num]); rows behind the last found box are zeros.

    multi_bboxes: [batch, n, 4] or [batch, n, classes * 4]. multi_scores: [batch, n, classes + 1], background last.
    """
    classes = multi_scores.shape[-1] - 1
    boxes = multi_bboxes.reshape(*multi_bboxes.shape[:2], -1, 4)
    if boxes.shape[2] not in (1, classes):
        raise ValueError(f"boxes for one class or for each of {classes}, not for {boxes.shape[2]}")
    scores = multi_scores[..., :-1]
    if score_factors is not None:
        scores = scores * score_factors.unsqueeze(-1)
    found, best, labels, _ = torch.ops.npu.npu_batch_nms(boxes, scores, score_thr, nms_thr, max_num, max_num)
    return torch.cat([found, best.unsqueeze(-1)], -1), labels


def npu_multiclass_nms(multi_bboxes, multi_scores, score_thr=0.05, nms_thr=0.45, max_num=50, score_factors=None):
    """The same for one image, without the batch dimension."""
    factors = None if score_factors is None else score_factors.unsqueeze(0)
    boxes, labels = npu_batched_multiclass_nms(multi_bboxes.unsqueeze(0), multi_scores.unsqueeze(0), score_thr, nms_thr, max_num, factors)
    return boxes[0], labels[0]
