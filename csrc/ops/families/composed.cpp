// Operators that are others in disguise: upstream registers them for each device, here they need no kernel of their
// own, or one call.
#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/BucketizationUtils.h>
#include <ATen/ops/_ctc_loss_backward_native.h>
#include <ATen/ops/_ctc_loss_native.h>
#include <ATen/ops/_make_dep_token_native.h>
#include <ATen/ops/glu_backward_jvp_native.h>
#include <ATen/ops/pixel_shuffle_native.h>
#include <ATen/ops/pixel_unshuffle_native.h>

#include "ops/families/forms.h"
#include "ops/register.h"

namespace npu::ops {

namespace {

using c10::Scalar;

Tensor number(const Scalar& s) {
  auto t = c10::scalar_to_tensor(s);
  t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}

Tensor lshift(const Tensor& self, const Tensor& other) { return at::bitwise_left_shift(self, other); }
Tensor& ilshift(Tensor& self, const Tensor& other) { return self.bitwise_left_shift_(other); }
Tensor rshift(const Tensor& self, const Tensor& other) { return at::bitwise_right_shift(self, other); }
Tensor rshift_number(const Tensor& self, const Scalar& other) { return at::bitwise_right_shift(self, other); }
Tensor& irshift(Tensor& self, const Tensor& other) { return self.bitwise_right_shift_(other); }
Tensor& irshift_number(Tensor& self, const Scalar& other) { return self.bitwise_right_shift_(other); }

Tensor vdot(const Tensor& self, const Tensor& other) { return at::dot(self.conj(), other); }

// Upstream's meta function leaves the size of this result, a single one, to its kernel.
Tensor number_is_in(const Scalar& element, const Tensor& test_elements, bool assume_unique, bool invert) {
  CardGuard guard(test_elements);
  auto out = make(sized({}, at::kBool));
  NPU_EXEC(aclnnIsInScalarTensor, element, test_elements, assume_unique, invert, out);
  return out;
}
Tensor& number_is_in_out(const Scalar& element, const Tensor& test_elements, bool assume_unique, bool invert,
                         Tensor& out) {
  write_out(out, number_is_in(element, test_elements, assume_unique, invert));
  return out;
}

std::tuple<Tensor, Tensor> aminmax_all(const Tensor& self) {
  CardGuard guard(self);
  check_not_empty(self, "aminmax");
  auto least = make(sized({}, self)), most = make(sized({}, self));
  NPU_EXEC(aclnnAminmaxAll, self, least, most);
  return {least, most};
}
std::tuple<Tensor, Tensor> aminmax_dim(const Tensor& self, int64_t dim, bool keepdim) {
  CardGuard guard(self);
  check_reduced_dim(self, dim, "aminmax");
  const auto spec = reduced(self, at::IntArrayRef(dim), keepdim, self.scalar_type());
  auto least = make(spec), most = make(spec);
  NPU_EXEC(aclnnAminmaxDim, self, dim, keepdim, least, most);
  return {least, most};
}

Tensor glu_jvp(const Tensor& glu, const Tensor& x, const Tensor& dx, int64_t dim) {
  const auto gate = x.chunk(2, dim)[1].sigmoid();
  const auto parts = dx.chunk(2, dim);
  return parts[0] * gate + glu * (1 - gate) * parts[1];
}

// Products of narrow numbers, and their scales.
Tensor int_mm(const Tensor& self, const Tensor& mat2) {
  TORCH_CHECK(self.scalar_type() == at::kChar && mat2.scalar_type() == at::kChar,
              "_int_mm: expected int8 matrices, but got ", self.scalar_type(), " and ", mat2.scalar_type());
  return at::mm(self.to(at::kInt), mat2.to(at::kInt));
}
Tensor& int_mm_out(const Tensor& self, const Tensor& mat2, Tensor& out) { return write_out(out, int_mm(self, mat2)); }
Tensor weight_int8pack_mm(const Tensor& self, const Tensor& mat2, const Tensor& scales) {
  return at::mm(self.to(at::kFloat), mat2.to(at::kFloat).t()).mul_(scales).to(self.scalar_type());
}
Tensor scaled_mm(const Tensor& self, const Tensor& mat2, const Tensor& scale_a, const Tensor& scale_b,
                 const std::optional<Tensor>& bias, const std::optional<Tensor>& scale_result,
                 std::optional<at::ScalarType> out_dtype, bool) {
  auto product = at::mm(self.to(at::kFloat), mat2.to(at::kFloat)).mul_(scale_a).mul_(scale_b);
  if (bias && bias->defined()) product.add_(*bias);
  if (scale_result && scale_result->defined() && out_dtype && at::isFloat8Type(*out_dtype)) product.mul_(*scale_result);
  return product.to(out_dtype.value_or(self.scalar_type()));
}
Tensor& scaled_mm_out(const Tensor& self, const Tensor& mat2, const Tensor& scale_a, const Tensor& scale_b,
                      const std::optional<Tensor>& bias, const std::optional<Tensor>& scale_result,
                      std::optional<at::ScalarType> out_dtype, bool fast, Tensor& out) {
  return write_out(out, scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, fast));
}

// The scales of a side are one number, or one for each of its rows (columns, for the second matrix).
void check_scales(const char* name, const Tensor& matrix, at::TensorList scales, at::IntArrayRef recipe,
                  at::IntArrayRef sizes) {
  constexpr int64_t kWhole = 0, kRows = 1;  // upstream's at::blas::ScalingType
  const bool known = scales.size() == 1 && recipe.size() == 1 && (recipe[0] == kWhole || recipe[0] == kRows);
  TORCH_CHECK_VALUE(known && at::isFloat8Type(matrix.scalar_type()) && scales[0].scalar_type() == at::kFloat,
                    "Invalid scaling configuration: ", name,
                    " must be one float32 tensor, TensorWise or RowWise, for a float8 matrix");
  const bool fits = recipe[0] == kWhole ? scales[0].numel() == 1 : scales[0].sizes() == sizes;
  TORCH_CHECK_VALUE(fits, name, " must have shape ", recipe[0] == kWhole ? at::IntArrayRef(1) : sizes, ", got ",
                    scales[0].sizes());
}
Tensor scaled_mm_by_recipe(const Tensor& self, const Tensor& mat2, at::TensorList scale_a, at::IntArrayRef recipe_a,
                           at::IntArrayRef, at::TensorList scale_b, at::IntArrayRef recipe_b, at::IntArrayRef,
                           const std::optional<Tensor>& bias, std::optional<at::ScalarType> out_dtype, at::IntArrayRef,
                           bool fast) {
  TORCH_CHECK(self.dim() == 2 && mat2.dim() == 2, "scaled_mm: matrices expected, got ", self.dim(), "D and ",
              mat2.dim(), "D tensors");
  check_scales("scale_a", self, scale_a, recipe_a, {self.size(0), 1});
  check_scales("scale_b", mat2, scale_b, recipe_b, {1, mat2.size(1)});
  TORCH_CHECK_VALUE(recipe_a[0] == recipe_b[0],
                    "Invalid scaling configuration: scale_a and scale_b must have the same recipe");
  return scaled_mm(self, mat2, scale_a[0], scale_b[0], bias, std::nullopt, out_dtype, fast);
}
Tensor& scaled_mm_by_recipe_out(const Tensor& self, const Tensor& mat2, at::TensorList scale_a,
                                at::IntArrayRef recipe_a, at::IntArrayRef swizzle_a, at::TensorList scale_b,
                                at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b, const std::optional<Tensor>& bias,
                                std::optional<at::ScalarType> out_dtype, at::IntArrayRef dims, bool fast, Tensor& out) {
  return write_out(out, scaled_mm_by_recipe(self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b,
                                            bias, out_dtype, dims, fast));
}

// Each result is a sum over the first dimension of `input`, with a row of coefficients.
Tensor linear_combination(const Tensor& input, const Tensor& coefficients) {
  return at::tensordot(coefficients, input, {1}, {0});
}
Tensor& linear_combination_out(const Tensor& input, const Tensor& coefficients, Tensor& out) {
  return write_out(out, linear_combination(input, coefficients));
}

Tensor add_relu(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  if (!is_npu(self) || !is_npu(other)) return at::add(self, other, alpha).relu_();
  CardGuard guard(self);
  check_same_device("_add_relu", {&self, &other});
  auto out = make(elementwise(promote(self, other), self, other));
  NPU_EXEC(aclnnAddRelu, self, other, alpha, out);
  return out;
}
Tensor add_relu_number(const Tensor& self, const Scalar& other, const Scalar& alpha) {
  return at::add(self, other, alpha).relu_();
}
Tensor& add_relu_(Tensor& self, const Tensor& other, const Scalar& alpha) {
  if (!is_npu(other)) return self.add_(other, alpha).relu_();
  CardGuard guard(self);
  check_same_device("_add_relu_", {&self, &other});
  at::assert_no_internal_overlap(self);
  check_inplace(self, elementwise(promote(self, other), self, other));
  NPU_EXEC(aclnnInplaceAddRelu, self, other, alpha);
  return self;
}
Tensor& add_relu_number_(Tensor& self, const Scalar& other, const Scalar& alpha) {
  return self.add_(other, alpha).relu_();
}
Tensor& add_relu_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  return write_out(out, add_relu(self, other, alpha));
}

// Upstream's compositions lose channels_last, which the CPU keeps.
Tensor pixel_shuffle(const Tensor& self, int64_t factor) {
  return at::native::math_pixel_shuffle(self, factor).contiguous(self.suggest_memory_format());
}
Tensor pixel_unshuffle(const Tensor& self, int64_t factor) {
  return at::native::math_pixel_unshuffle(self, factor).contiguous(self.suggest_memory_format());
}

Tensor count_nonzero(const Tensor& self, at::IntArrayRef dim) { return self.ne(0).sum(dim); }

Tensor& mvlgamma_out(const Tensor& self, int64_t p, Tensor& out) { return write_out(out, at::mvlgamma(self, p)); }

Tensor& narrow_copy_out(const Tensor& self, int64_t dim, int64_t start, int64_t length, Tensor& out) {
  return write_out(out, self.narrow(dim, start, length));
}

// The value stays on the device: the backward of trace, for one, fills with a gradient.
Tensor& index_fill_tensor(Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  const bool fits = is_npu(value) && value.device() == self.device() && (self.is_complex() || !value.is_complex());
  if (!fits || index.dim() > 1 || index.scalar_type() != at::kLong ||
      at::has_internal_overlap(self) == at::MemOverlap::Yes)
    return self.index_fill_(dim, index, value.item());  // or raises, in upstream's words
  at::assert_no_overlap(self, index);
  dim = at::maybe_wrap_dim(dim, self.dim());
  auto target = self.dim() ? self : self.unsqueeze(0);
  auto sizes = target.sizes().vec();
  sizes[dim] = index.numel();
  target.index_copy_(dim, index, value.to(self.scalar_type()).expand(sizes));
  return self;
}

Tensor bucketize_number(const Scalar& self, const Tensor& boundaries, bool out_int32, bool right) {
  return at::bucketize(at::scalar_tensor(self, boundaries.options().dtype(promote(boundaries, number(self)))),
                       boundaries, out_int32, right);
}

Tensor cholesky(const Tensor& self, bool upper) { return at::linalg_cholesky(self, upper); }
Tensor& cholesky_out(const Tensor& self, bool upper, Tensor& out) {
  return write_out(out, at::linalg_cholesky(self, upper));
}

bool is_set_to(const Tensor& self, const Tensor& other) {
  return self.storage().unsafeGetStorageImpl() == other.storage().unsafeGetStorageImpl() &&
         self.storage_offset() == other.storage_offset() && self.sizes() == other.sizes() &&
         self.strides() == other.strides();
}

void assert_async(const Tensor& self) {
  TORCH_CHECK(self.is_nonzero(), "Expected Tensor with single nonzero value, but got zero");
}
void assert_async_text(const Tensor& self, std::string_view text) { TORCH_CHECK(self.is_nonzero(), text); }
Tensor functional_assert_async(const Tensor& self, std::string_view text, const Tensor& token) {
  assert_async_text(self, text);
  return token.clone();
}

// Norms of bfloat16 weights are float32, as on the CPU; the arithmetic is too.
std::tuple<Tensor, Tensor> weight_norm(const Tensor& v, const Tensor& g, int64_t dim) {
  TORCH_CHECK(dim == 0 || dim == v.dim() - 1, "fused kernels can only be applied for first or last dim");
  const auto type = g.scalar_type() == at::kBFloat16 ? at::kFloat : g.scalar_type();
  const auto wide = v.to(type);
  const auto norms = at::norm_except_dim(wide, 2, dim);
  return {(wide * (g.to(type) / norms)).to(v.scalar_type()), norms};
}

std::tuple<Tensor, Tensor> weight_norm_backward(const Tensor& grad, const Tensor& v, const Tensor& g,
                                                const Tensor& norms, int64_t dim) {
  TORCH_CHECK(dim == 0 || dim == v.dim() - 1, "fused kernels can only be applied for first or last dim");
  std::vector<int64_t> others;
  for (int64_t i = 0; i < v.dim(); ++i) {
    if (i != dim) others.push_back(i);
  }
  const auto type = norms.scalar_type();
  const auto wide_grad = grad.to(type), wide = v.to(type);
  auto along = wide_grad * wide;  // the part of the gradient that changes the length
  if (!others.empty()) along = along.sum(others, /*keepdim=*/true);
  const auto grad_v = g.to(type) / norms * (wide_grad - wide * (along / norms.square()));
  return {grad_v.to(v.scalar_type()), (along / norms).to(g.scalar_type())};
}

}  // namespace

NPU_REGISTER(composed) {
  manual("aten::__lshift__", "Tensor", &lshift);
  manual("aten::__ilshift__", "Tensor", &ilshift);
  manual("aten::__rshift__", "Tensor", &rshift);
  manual("aten::__rshift__", "Scalar", &rshift_number);
  manual("aten::__irshift__", "Tensor", &irshift);
  manual("aten::__irshift__", "Scalar", &irshift_number);
  manual("aten::vdot", "", &vdot);
  manual("aten::isin", "Scalar_Tensor", &number_is_in);
  manual("aten::isin", "Scalar_Tensor_out", &number_is_in_out);
  manual("aten::_aminmax", "", &aminmax_all);
  manual("aten::_aminmax", "dim", &aminmax_dim);
  manual("aten::count_nonzero", "dim_IntList", &count_nonzero);
  manual("aten::_int_mm", "", &int_mm);
  manual("aten::_int_mm", "out", &int_mm_out);
  manual("aten::_weight_int8pack_mm", "", &weight_int8pack_mm);
  manual("aten::_scaled_mm", "", &scaled_mm);
  manual("aten::_scaled_mm", "out", &scaled_mm_out);
  manual("aten::_scaled_mm_v2", "", &scaled_mm_by_recipe);
  manual("aten::_scaled_mm_v2", "out", &scaled_mm_by_recipe_out);
  manual("aten::_compute_linear_combination", "", &linear_combination);
  manual("aten::_compute_linear_combination", "out", &linear_combination_out);
  manual("aten::_add_relu", "Tensor", &add_relu);
  manual("aten::_add_relu", "Scalar", &add_relu_number);
  manual("aten::_add_relu", "out", &add_relu_out);
  manual("aten::_add_relu_", "Tensor", &add_relu_);
  manual("aten::_add_relu_", "Scalar", &add_relu_number_);
  manual("aten::_ctc_loss", "Tensor", &at::native::ctc_loss_tensor);
  manual("aten::_ctc_loss_backward", "Tensor", &at::native::ctc_loss_backward_tensor);
  manual("aten::glu_jvp", "", &glu_jvp);
  manual("aten::glu_backward_jvp", "", &at::native::glu_backward_jvp);
  manual("aten::pixel_shuffle", "", &pixel_shuffle);
  manual("aten::pixel_unshuffle", "", &pixel_unshuffle);
  manual("aten::mvlgamma", "out", &mvlgamma_out);
  manual("aten::narrow_copy", "out", &narrow_copy_out);
  manual("aten::index_fill_", "int_Tensor", &index_fill_tensor);
  manual("aten::bucketize", "Scalar", &bucketize_number);
  manual("aten::cholesky", "", &cholesky);
  manual("aten::cholesky", "out", &cholesky_out);
  manual("aten::is_set_to", "", &is_set_to);
  manual("aten::_assert_async", "", &assert_async);
  manual("aten::_assert_async", "msg", &assert_async_text);
  manual("aten::_functional_assert_async", "msg", &functional_assert_async);
  manual("aten::_make_dep_token", "", &at::native::_make_dep_token_cpu);
  manual("aten::_weight_norm_interface", "", &weight_norm);
  manual("aten::_weight_norm_interface_backward", "", &weight_norm_backward);
}

}  // namespace npu::ops
