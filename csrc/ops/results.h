// Rules by which rows of npu:: operators state the tensors that they make: sizes, which may be symbolic, and a type.
#pragma once

#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>
#include <c10/util/SmallVector.h>

namespace npu::ops::results {

using at::Tensor;
using Dims = c10::SmallVector<c10::SymInt, 6>;

struct Result {
  Dims sizes;
  at::ScalarType dtype;
};

// False for meta tensors, for which nothing is launched. Tensors of other devices are refused.
bool on_card(const Tensor& on);
// A contiguous tensor beside `on`: on its card, or a meta tensor.
Tensor make(const Tensor& on, const Result& result);

// `made`, with the numbers of `from`: what an operator changes in the place of its argument.
inline const Tensor& filled(const Tensor& made, const Tensor& from) { return made.copy_(from), made; }

inline Dims dims(c10::SymIntArrayRef sizes) { return Dims(sizes.begin(), sizes.end()); }
inline Dims dims(const Tensor& t) { return dims(t.sym_sizes()); }

inline Result sized(Dims sizes, at::ScalarType dtype) { return {std::move(sizes), dtype}; }
inline Result sized(Dims sizes, const Tensor& t) { return {std::move(sizes), t.scalar_type()}; }
inline Result like(const Tensor& t) { return {dims(t), t.scalar_type()}; }
inline Result like(const Tensor& t, at::ScalarType dtype) { return {dims(t), dtype}; }
// A tensor without elements, for a result that this call does not have.
inline Result none(at::ScalarType dtype) { return {{0}, dtype}; }
inline Result none(const Tensor& t) { return none(t.scalar_type()); }

// The sizes of `t` with dimension `dim` of another length.
Dims with_dim(const Tensor& t, int64_t dim, c10::SymInt length);
// Without dimension `dim`.
Dims without_dim(const Tensor& t, int64_t dim);
// With the last dimension in `count` parts of `length`, as heads.
Dims split_last(const Tensor& t, c10::SymInt count, c10::SymInt length);
// With the last `count` dimensions of length one: statistics of a normalisation.
Dims kept(const Tensor& t, int64_t count);
// The sizes of two tensors, broadcast.
Dims broadcast(const Tensor& a, const Tensor& b);

}  // namespace npu::ops::results
