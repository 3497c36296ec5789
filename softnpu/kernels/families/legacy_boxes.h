// Overlaps of boxes and codings that detectors learn, of the interface before aclnn.
#pragma once

#include "kernels/families/legacy.h"

namespace softnpu::kernels {

// [ground truths, boxes] of boxes x1 y1 x2 y2; over the ground truth's area with mode iof. `extra`: 1 counts pixels.
Tensor overlaps(const Tensor& boxes, const Tensor& truths, const std::string& mode, double extra);

// Of boxes [4, n], each with its own ground truth ([1, n]), or with all of them ([ground truths, n]).
struct BoxLoss {
  enum Kind { giou, diou, ciou } kind;
  bool trans, is_cross;  // boxes are centre and sides; against all ground truths
  bool over_first;       // over the first box's area
  BoxLoss(Kind kind, bool trans, bool is_cross, const std::string& mode);
};
// `angles`: the differences of the diagonals' angles, if wanted.
void box_loss(const BoxLoss& loss, const Tensor& boxes, const Tensor& truths, Tensor& out, Tensor* angles = nullptr);
void box_loss_backward(const BoxLoss& loss, const Tensor& grad, const Tensor& boxes, const Tensor& truths,
                       Tensor& d_boxes, Tensor& d_truths);

using Numbers = std::vector<at::Scalar>;
Tensor encoded_boxes(const Tensor& anchors, const Tensor& truths, const Numbers& means, const Numbers& deviations);
Tensor decoded_boxes(const Tensor& rois, const Tensor& deltas, const Numbers& means, const Numbers& deviations,
                     at::IntArrayRef max_shape, double wh_ratio_clip);
Tensor anchor_flags(const Tensor& boxes, at::IntArrayRef map, at::IntArrayRef strides, int64_t anchors);
Tensor yolo_encoded(const Tensor& anchors, const Tensor& truths, const Tensor& stride);
Tensor rotated_encoded(const Tensor& anchors, const Tensor& truths, const Tensor& weight);
Tensor rotated_decoded(const Tensor& anchors, const Tensor& deltas, const Tensor& weight);
// Anchors' numbers of ground truths, counted from 1; see npu_grid_assign_positive.
Tensor assigned(const Tensor& before, const Tensor& overlaps, const Tensor& responsible, const Tensor& largest,
                const Tensor& best_truth, const Tensor& truth_largest, const Tensor& truth_best, const Tensor& truths,
                double positive, double least, bool all);
// Position sensitive pooling: bin (i, j) of output channel d averages channel (d, i, j) of regions [batch, 5, n].
struct RegionBins {
  double scale;
  int64_t channels, groups;
};
void pool_regions(const RegionBins& bins, const Tensor& x, const Tensor& rois, Tensor& y);
void pool_regions_backward(const RegionBins& bins, const Tensor& grad, const Tensor& rois, Tensor& y);
// Which boxes, sorted by falling score, overlap no surviving better one by more than `threshold`: bool.
Tensor surviving(const Tensor& boxes, double threshold);

}  // namespace softnpu::kernels
