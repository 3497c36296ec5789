#include "kernels/families/regions.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "acl_types.h"
#include "kernels/engine/require.h"
#include "runtime/error.h"

namespace softnpu::kernels {

namespace {

constexpr double kMostSamples = 4096;  // along a side, where the region says how many
constexpr double kFar = 1e8;

// Four pixels and their shares.
struct Point {
  int64_t place[4];
  double share[4];
};

struct Region {
  Region(const double* roi, const Regions& r, int64_t height, int64_t width) {
    const double shift = r.mode == 2 ? 0.5 : 0.0, last = r.mode == 1 ? 1.0 : 0.0;
    x = roi[1] * r.scale - shift, y = roi[2] * r.scale - shift;
    w = (roi[3] + last) * r.scale - shift - x, h = (roi[4] + last) * r.scale - shift - y;
    if (r.mode != 2) w = std::max(w, 1.0), h = std::max(h, 1.0);
    const auto samples = [&](double length, int64_t bins) {
      return r.samples > 0
                 ? r.samples
                 : static_cast<int64_t>(std::clamp(std::ceil(length / static_cast<double>(bins)), 1.0, kMostSamples));
    };
    rows = samples(h, height), columns = samples(w, width);
  }
  double x, y, w, h;
  int64_t rows, columns;
};

Point point_at(double y, double x, int64_t height, int64_t width) {
  Point p{};
  if (!(y >= -1.0 && y <= static_cast<double>(height) && x >= -1.0 && x <= static_cast<double>(width))) return p;
  y = std::clamp(y, 0.0, static_cast<double>(height - 1)), x = std::clamp(x, 0.0, static_cast<double>(width - 1));
  const auto y0 = static_cast<int64_t>(y), x0 = static_cast<int64_t>(x);
  const int64_t y1 = std::min(y0 + 1, height - 1), x1 = std::min(x0 + 1, width - 1);
  const double fy = y - static_cast<double>(y0), fx = x - static_cast<double>(x0);
  p = {{y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1},
       {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx}};
  return p;
}

// Calls use(bin, point, 1 / points of a bin) for every point of a region.
template <class Use>
void for_points(const Region& region, int64_t bins_y, int64_t bins_x, int64_t height, int64_t width, Use&& use) {
  const double part = 1.0 / static_cast<double>(region.rows * region.columns);
  for (int64_t i = 0; i < bins_y * region.rows; i++) {
    const double y = region.y + region.h * (static_cast<double>(i) + 0.5) / static_cast<double>(bins_y * region.rows);
    for (int64_t j = 0; j < bins_x * region.columns; j++) {
      const double x =
          region.x + region.w * (static_cast<double>(j) + 0.5) / static_cast<double>(bins_x * region.columns);
      use(i / region.rows * bins_x + j / region.columns, point_at(y, x, height, width), part);
    }
  }
}

}  // namespace

void roi_align(at::Tensor& pooled, const at::Tensor& features, const at::Tensor& rois, const Regions& regions) {
  const auto maps = features.contiguous(), boxes = rois.to(at::kDouble).contiguous();
  const int64_t channels = maps.size(1), height = maps.size(2), width = maps.size(3);
  const int64_t bins_y = pooled.size(2), bins_x = pooled.size(3);
  const auto compute = [&]<class T>(T) {
    const at::Tensor wide = maps.to(c10::CppTypeToScalarType<T>::value);
    at::Tensor result = at::zeros(pooled.sizes(), wide.options());
    at::parallel_for(0, rois.size(0), 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; n++) {
        const double* roi = boxes.const_data_ptr<double>() + n * 5;
        const T* map = wide.const_data_ptr<T>() + static_cast<int64_t>(roi[0]) * channels * height * width;
        T* out = result.mutable_data_ptr<T>() + n * channels * bins_y * bins_x;
        for_points(Region(roi, regions, bins_y, bins_x), bins_y, bins_x, height, width,
                   [&](int64_t bin, const Point& p, double part) {
                     for (int k = 0; k < 4; k++) {
                       const T share = static_cast<T>(part * p.share[k]);
                       for (int64_t c = 0; c < channels; c++)
                         out[c * bins_y * bins_x + bin] += share * map[c * height * width + p.place[k]];
                     }
                   });
      }
    });
    pooled.copy_(result);
  };
  if (pooled.numel() == 0 || maps.numel() == 0)
    pooled.zero_();
  else
    pooled.scalar_type() == at::kDouble ? compute(double{}) : compute(float{});
}

void roi_align_backward(at::Tensor& gradient, const at::Tensor& pooled, const at::Tensor& rois,
                        const Regions& regions) {
  const auto boxes = rois.to(at::kDouble).contiguous();
  const int64_t channels = gradient.size(1), height = gradient.size(2), width = gradient.size(3);
  const int64_t bins_y = pooled.size(2), bins_x = pooled.size(3);
  const auto compute = [&]<class T>(T) {
    const at::Tensor wide = pooled.to(c10::CppTypeToScalarType<T>::value).contiguous();
    at::Tensor result = at::zeros(gradient.sizes(), wide.options());
    at::parallel_for(0, channels, 1, [&](int64_t begin, int64_t end) {  // regions share pixels, channels do not
      for (int64_t n = 0; n < rois.size(0); n++) {
        const double* roi = boxes.const_data_ptr<double>() + n * 5;
        T* map = result.mutable_data_ptr<T>() + static_cast<int64_t>(roi[0]) * channels * height * width;
        const T* grad = wide.const_data_ptr<T>() + n * channels * bins_y * bins_x;
        for_points(Region(roi, regions, bins_y, bins_x), bins_y, bins_x, height, width,
                   [&](int64_t bin, const Point& p, double part) {
                     for (int k = 0; k < 4; k++) {
                       const T share = static_cast<T>(part * p.share[k]);
                       for (int64_t c = begin; c < end; c++)
                         map[c * height * width + p.place[k]] += share * grad[c * bins_y * bins_x + bin];
                     }
                   });
      }
    });
    gradient.copy_(result);
  };
  if (gradient.numel() == 0 || pooled.numel() == 0)
    gradient.zero_();
  else
    gradient.scalar_type() == at::kDouble ? compute(double{}) : compute(float{});
}

void require::region_shapes(const at::Tensor& features, const at::Tensor& rois, const at::Tensor& pooled,
                            int64_t height, int64_t width, int64_t samples, int64_t mode) {
  rank(features, "features", 4, 4);
  that(rois.dim() == 2 && rois.size(1) == 5, "rois is not [n, 5]");
  that(height > 0 && width > 0, "pooled_height and pooled_width are not positive");
  that(samples >= 0 && samples <= static_cast<int64_t>(kMostSamples), "sample_num is negative, or too large");
  that(mode >= 0 && mode <= 2, "roi_end_mode is not 0, 1 or 2");
  shape(pooled, "the pooled tensor", {rois.size(0), features.size(1), height, width});
}

void bounds::check_regions(const at::Tensor& rois, int64_t images) {
  const auto boxes = rois.to(at::kDouble).contiguous();
  const double* roi = boxes.const_data_ptr<double>();
  for (int64_t n = 0; n < boxes.size(0); n++, roi += 5) {
    if (!(roi[0] >= 0 && roi[0] < static_cast<double>(images)))
      fail(ACL_ERROR_RT_AICORE_EXCEPTION, "rois: region %lld is of image %g, there are %lld", static_cast<long long>(n),
           roi[0], static_cast<long long>(images));
    for (int k = 1; k < 5; k++)
      if (!(std::abs(roi[k]) < kFar))
        fail(ACL_ERROR_RT_AICORE_EXCEPTION, "rois: region %lld has a coordinate that is no number on any map",
             static_cast<long long>(n));
  }
}

}  // namespace softnpu::kernels
