// Averages of a feature map over the bins of regions, at points between pixels.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::kernels {

struct Regions {
  double scale;     // of the regions' coordinates to those of the map
  int64_t samples;  // points along each side of a bin; 0: as many as it has pixels
  int64_t mode;     // 0: a region has at least one pixel; 1: its last pixel counts as well; 2: shifted by half a pixel
};

// features [N, C, H, W], rois [n, 5] (image, x1, y1, x2, y2), pooled [n, C, height, width].
void roi_align(at::Tensor& pooled, const at::Tensor& features, const at::Tensor& rois, const Regions& regions);
void roi_align_backward(at::Tensor& gradient, const at::Tensor& pooled, const at::Tensor& rois, const Regions& regions);

namespace require {
void region_shapes(const at::Tensor& features, const at::Tensor& rois, const at::Tensor& pooled, int64_t height,
                   int64_t width, int64_t samples, int64_t mode);
}
namespace bounds {
// Images exist, and coordinates are numbers that a bin can be counted out for.
void check_regions(const at::Tensor& rois, int64_t images);
}  // namespace bounds

}  // namespace softnpu::kernels
