#include "kernels/families/slice.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <bit>

#include "kernels/engine/require.h"

namespace softnpu::kernels {

namespace {

bool has(int64_t mask, size_t bit) { return (mask >> bit & 1) != 0; }

// Elements begin, begin + stride ... before end; either may be counted from behind, and a stride may be negative.
at::Tensor sliced(const at::Tensor& t, int64_t dim, int64_t begin, int64_t end, int64_t stride, bool from_first,
                  bool to_last) {
  TORCH_CHECK(stride != 0, "strides has a 0");
  const int64_t size = t.size(dim);
  const int64_t first = stride > 0 ? 0 : -1, last = stride > 0 ? size : size - 1;
  const auto place = [&](int64_t at, bool open, int64_t otherwise) {
    return open ? otherwise : std::clamp(at < 0 ? at + size : at, first, last);
  };
  begin = place(begin, from_first, stride > 0 ? 0 : size - 1);
  end = place(end, to_last, stride > 0 ? size : -1);
  if (stride > 0) return t.slice(dim, begin, std::max(begin, end), stride);
  return at::index_select(t, dim, begin > end ? at::arange(begin, end, stride) : at::arange(0));
}

}  // namespace

at::Tensor strided_slice(const at::Tensor& self, at::IntArrayRef begin, at::IntArrayRef end, at::IntArrayRef strides,
                         const SliceMasks& masks) {
  int64_t named = 0;  // dimensions of self that the lists name
  for (size_t i = 0; i < begin.size(); i++) named += !has(masks.ellipsis, i) && !has(masks.new_axis, i);
  at::Tensor result = self;
  int64_t dim = 0;
  for (size_t i = 0; i < begin.size(); i++) {
    if (has(masks.ellipsis, i)) {
      dim += self.dim() - named;
    } else if (has(masks.new_axis, i)) {
      result = result.unsqueeze(dim++);
    } else if (has(masks.shrink, i)) {
      result = result.select(dim, begin[i]);
    } else {
      result = sliced(result, dim, begin[i], end[i], strides[i], has(masks.begin, i), has(masks.end, i));
      dim++;
    }
  }
  return result;
}

void require::slices(const at::Tensor& self, at::IntArrayRef begin, at::IntArrayRef end, at::IntArrayRef strides,
                     int64_t ellipsis_mask, int64_t new_axis_mask) {
  that(begin.size() <= 32, "begin has more than 32 numbers");
  entries(end, "end", begin.size());
  entries(strides, "strides", begin.size());
  const uint64_t all = (uint64_t{1} << begin.size()) - 1;
  that(std::popcount(static_cast<uint64_t>(ellipsis_mask) & all) <= 1, "ellipsis_mask has more than one bit");
  const auto other = static_cast<uint64_t>(ellipsis_mask | new_axis_mask) & all;
  that(static_cast<int64_t>(begin.size()) - std::popcount(other) <= self.dim(),
       "begin has more numbers than self sizes");
}

}  // namespace softnpu::kernels
