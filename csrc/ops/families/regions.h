// What pooling of regions takes.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu::ops {

inline void check_regions(const char* op, const at::Tensor& features, const at::Tensor& rois, int64_t height,
                          int64_t width, int64_t samples, int64_t mode) {
  TORCH_CHECK(features.dim() == 4, op, ": input must have 4 dimensions, got ", features.dim());
  TORCH_CHECK(rois.dim() == 2 && rois.sym_size(1) == 5, op, ": rois must be [n, 5], got ", rois.sym_sizes());
  TORCH_CHECK(features.is_floating_point() && rois.is_floating_point(), op,
              ": input and rois must be of floating types, got ", features.scalar_type(), " and ", rois.scalar_type());
  TORCH_CHECK(height > 0 && width > 0, op, ": pooled_height and pooled_width must be positive, got ", height, " and ",
              width);
  TORCH_CHECK(samples >= 0, op, ": sample_num must not be negative, got ", samples);
  TORCH_CHECK_VALUE(mode >= 0 && mode <= 2, op, ": roi_end_mode must be 0, 1 or 2, got ", mode);
}

}  // namespace npu::ops
