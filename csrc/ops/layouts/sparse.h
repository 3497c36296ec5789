// What the files of sparse tensors share. Indices and values are ordinary tensors; everything is composed of operators
// on them.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include "ops/tensor.h"

namespace npu::ops {

Tensor coo(const Tensor& indices, const Tensor& values, at::IntArrayRef sizes, bool coalesced);
// Each column of `indices` as the place's number in row-major order.
Tensor flatten(const Tensor& indices, at::IntArrayRef sizes);
// Entries at the same place become one, their sum, in the order of places.
Tensor coalesce(const Tensor& self);
// An out= tensor becomes `result`.
Tensor& replace(Tensor& out, const Tensor& result);
// beta * self + alpha * (matrix of entries) x mat2
Tensor add_product(const Tensor& self, const Tensor& rows, const Tensor& columns, const Tensor& values, int64_t height,
                   const Tensor& mat2, const c10::Scalar& beta, const c10::Scalar& alpha);

}  // namespace npu::ops
