// Copies of parts and in other orders, of the interface before aclnn.
#pragma once

#include "kernels/families/legacy.h"

namespace softnpu::kernels {

Tensor part(const Tensor& x, const Tensor& offsets, const Tensor& sizes);  // a size of -1: the rest
struct SliceMasks {
  int64_t begin, end, ellipsis, new_axis, shrink_axis;
};
Tensor strided_part(const Tensor& x, const Tensor& begin, const Tensor& end, const Tensor& strides, SliceMasks masks);
Tensor padded(const Tensor& x, const Tensor& paddings, double value);  // a pair for each dimension, from the first one
Tensor transposed_and_reshaped(const Tensor& x, at::IntArrayRef perm, at::IntArrayRef shape, bool transpose_first);
Tensor one_hot(const Tensor& x, int64_t depth, const Tensor& on, const Tensor& off, int64_t axis);
// `updates` at the places that `indices` name along `dim`, which both may lack.
Tensor scattered(const Tensor& x, const Tensor& indices, const Tensor& updates, int64_t dim);
Tensor seen_as(const Tensor& x, const Tensor& size, const Tensor& stride, const Tensor& offset);  // from x's memory on
// Of `length` blocks of 16 channels each.
Tensor strided_sum(const Tensor& a, const Tensor& b, int64_t offset_a, int64_t offset_b, int64_t length);
Tensor range_filled(const Tensor& x, const Tensor& start, const Tensor& end, const Tensor& value, int64_t axis);
Tensor packed_signs(const Tensor& x, int64_t size);
Tensor unpacked_signs(const Tensor& x, int64_t size);
Tensor normalized_batch(const Tensor& x, const Tensor& lengths, bool whole, double epsilon);

}  // namespace softnpu::kernels
