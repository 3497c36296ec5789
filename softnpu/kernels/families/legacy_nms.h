// Non-maximum suppression and overlaps of rotated boxes, of the interface before aclnn.
#pragma once

#include "kernels/families/legacy.h"

namespace softnpu::kernels {

// Of rows x1 y1 x2 y2 score, sorted by falling score.
void nms_with_mask(const Tensor& rows, double threshold, Tensor& boxes, Tensor& indices, Tensor& mask);
// The survivors' numbers by falling score, filled up with zeros, and how many there are.
void nms_first(const Tensor& boxes, const Tensor& scores, const Tensor& most, const Tensor& threshold,
               const Tensor& score_threshold, Tensor& indices, Tensor& count);
struct BatchNms {
  double score_threshold, iou_threshold;
  int64_t per_class, total;
};
// Of boxes [batch, n, classes or 1, 4] and scores [batch, n, classes].
void nms_of_classes(const BatchNms& how, const Tensor& boxes, const Tensor& scores, Tensor& out_boxes,
                    Tensor& out_scores, Tensor& out_classes, Tensor& counts);

// Common areas [batch, n, k] of boxes [batch, 5, n] and [batch, 5, k]: centre, sides and angle in degrees, or with
// `trans` corners and angle.
Tensor rotated_overlaps(const Tensor& boxes, const Tensor& others, bool trans);
Tensor rotated_iou(const Tensor& boxes, const Tensor& others, bool trans, const std::string& mode);

}  // namespace softnpu::kernels
