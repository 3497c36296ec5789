#include "checks.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/BucketizationUtils.h>
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/empty.h>

namespace npu::ops {

void check_where(const Tensor& condition) {
  TORCH_CHECK(condition.scalar_type() == at::kBool, "where expected condition to be a boolean tensor, but got a tensor with dtype ",
              condition.scalar_type());
}

void check_dot(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ", other.dim(), "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "dot : expected both vectors to have same dtype, but found ", self.scalar_type(),
              " and ", other.scalar_type());
  TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor [", self.numel(), "] and src [", other.numel(),
              "] to have the same number of elements, but got ", self.numel(), " and ", other.numel(), " elements respectively");
}

void check_addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const c10::Scalar& beta, const c10::Scalar& alpha) {
  TORCH_CHECK(vec1.dim() == 1, "addr: Expected 1-D argument vec1, but got ", vec1.dim(), "-D");
  TORCH_CHECK(vec2.dim() == 1, "addr: Expected 1-D argument vec2, but got ", vec2.dim(), "-D");
  const auto dtype = c10::promoteTypes(self.scalar_type(), c10::promoteTypes(vec1.scalar_type(), vec2.scalar_type()));
  TORCH_CHECK(!alpha.isBoolean() || dtype == at::kBool, "Boolean alpha only supported for Boolean results.");
  TORCH_CHECK(!beta.isBoolean() || dtype == at::kBool, "Boolean beta only supported for Boolean results.");
  const bool whole = c10::isIntegralType(dtype, true);
  TORCH_CHECK(!whole || (!alpha.isFloatingPoint() && !alpha.isComplex()), "For integral input tensors, argument alpha must not be a floating point number.");
  TORCH_CHECK(!whole || (!beta.isFloatingPoint() && !beta.isComplex()), "For integral input tensors, argument beta must not be a floating point number.");
  at::infer_size(self.sizes(), at::IntArrayRef({vec1.size(0), vec2.size(0)}));
}

void check_index(const Tensor& index, const char* op) {
  TORCH_CHECK_INDEX(index.dim() <= 1, op, "(): Index is supposed to be a vector");
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt, op, "(): Expected dtype int32 or int64 for index");
}

void check_long_index(const Tensor& index, const char* op) {
  TORCH_CHECK(index.scalar_type() == at::kLong, op, "(): Expected a long tensor for index, but got ", index.scalar_type());
}

void check_steps(int64_t steps) { TORCH_CHECK(steps >= 0, "number of steps must be non-negative"); }

void check_matrix(const Tensor& self, const char* op) {
  TORCH_CHECK(self.dim() == 2, op, ": expected a matrix, but got tensor with dim ", self.dim());
}

void check_floating(const Tensor& self, const char* op) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()), op, "() only supports floating-point dtypes, but got ", self.scalar_type());
}

void check_not_complex(const Tensor& self, const char* op) { TORCH_CHECK(!self.is_complex(), op, " does not support complex inputs"); }

void check_same_dtype(const Tensor& self, const Tensor& source, const char* op) {
  TORCH_CHECK(self.scalar_type() == source.scalar_type(), op, "(): self and source expected to have the same dtype, but got (self) ",
              self.scalar_type(), " and (source) ", source.scalar_type());
}

void check_complex_parts(const Tensor& real, const Tensor& imag) {
  const auto is_part = [](at::ScalarType t) { return t == at::kFloat || t == at::kDouble || t == at::kHalf; };
  TORCH_CHECK(is_part(real.scalar_type()) && is_part(imag.scalar_type()),
              "Expected both inputs to be Half, Float or Double tensors but got ", real.scalar_type(), " and ", imag.scalar_type());
  TORCH_CHECK(real.scalar_type() == imag.scalar_type(), "Expected object of scalar type ", real.scalar_type(), " but got scalar type ",
              imag.scalar_type(), " for second argument");
}

void check_masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source) {
  TORCH_CHECK(self.scalar_type() == source.scalar_type(), "masked_scatter: expected self and source to have same dtypes but got",
              self.scalar_type(), " and ", source.scalar_type());
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_scatter_ only supports boolean masks, but got mask with dtype ", mask.scalar_type());
}

void check_grid(const Tensor& input, const Tensor& grid, int64_t interpolation_mode) {
  at::native::check_grid_sampler_common(input, grid);
  if (input.dim() == 4) at::native::check_grid_sampler_2d(input, grid);
  else at::native::check_grid_sampler_3d(input, grid, interpolation_mode);
}

void check_boundaries(const Tensor& boundaries) {
  TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(", boundaries.dim(), ")");
}

void check_search(const Tensor& sequence, const Tensor& values, bool right, std::optional<std::string_view> side,
                  const std::optional<Tensor>& sorter) {
  const Tensor indices = at::empty({0}, at::kLong);  // stands for the output, whose type our rule decides
  at::native::searchsorted_pre_check(sequence, values, indices, /*out_int32=*/false, right, side, sorter.value_or(Tensor()));
}

void check_channel_shuffle(const Tensor& self, int64_t groups) {
  TORCH_CHECK(self.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ", self.sizes());
  TORCH_CHECK(groups > 0, "Number of groups to divide channels in must be positive.", " Value of groups:", groups);
  TORCH_CHECK(self.size(1) % groups == 0, "Number of channels must be divisible by groups. Got ", self.size(1), " channels and ", groups,
              " groups.");
}

void check_kth(const Tensor& self, int64_t k, int64_t dim) {
  const int64_t length = self.dim() ? self.size(at::maybe_wrap_dim(dim, self.dim())) : 1;
  TORCH_CHECK(k >= 1 && k <= length, "kthvalue(): selected number k out of range for dimension ", dim);
}

void check_reduced_dim(const Tensor& self, int64_t dim, const char* op) {
  const int64_t d = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(self.dim() == 0 || self.size(d) != 0, op, "(): Expected reduction dim ", d, " to have non-zero size.");
}

void check_nll2d(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight) {
  TORCH_CHECK(target.dim() == 3, "only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.dim());
  TORCH_CHECK(self.dim() == 4, "only batches of spatial inputs supported (4D tensors), but got input of dimension: ", self.dim());
  TORCH_CHECK(!weight.has_value() || !weight->defined() || weight->numel() == self.size(1),
              "weight tensor should be defined either for all or no classes");
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
}

void check_linalg(const Tensor& info, const char* op, bool is_matrix) { at::_linalg_check_errors(info, op, is_matrix); }

}  // namespace npu::ops
