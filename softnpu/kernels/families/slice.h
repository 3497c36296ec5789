// A part of a tensor by begin, end and stride of each dimension, with masks of the dimensions whose numbers do not
// count.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::kernels {

// Bit i of a mask is the i-th of the numbers. begin and end: from the first, to the last; ellipsis: every dimension
// that the others leave; new_axis: a dimension of 1; shrink: one element, whose dimension goes.
struct SliceMasks {
  int64_t begin, end, ellipsis, new_axis, shrink;
};

at::Tensor strided_slice(const at::Tensor& self, at::IntArrayRef begin, at::IntArrayRef end, at::IntArrayRef strides,
                         const SliceMasks& masks);

namespace require {
// Lists of one length that name no more dimensions than there are, with at most one ellipsis.
void slices(const at::Tensor& self, at::IntArrayRef begin, at::IntArrayRef end, at::IntArrayRef strides,
            int64_t ellipsis_mask, int64_t new_axis_mask);
}  // namespace require

}  // namespace softnpu::kernels
