#include "ops/checks/common.h"

#include <ATen/Context.h>
#include <ATen/Dispatch_v2.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/BucketizationUtils.h>
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/result_type.h>

namespace npu::ops {

namespace {

void check_fits(at::ScalarType type, const c10::Scalar& value) {
  if (at::isBarebonesUnsignedType(type)) return;  // few kernels take them: phase one tells that first
  AT_DISPATCH_V2(type, "value", AT_WRAP([&] { (void)value.to<scalar_t>(); }), AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX),
                 AT_EXPAND(AT_FLOAT8_TYPES), at::kBool, at::kHalf, at::kBFloat16, at::kComplexHalf);
}

bool is_mask(const Tensor& index) { return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte; }

}  // namespace

void check_fits(const Tensor& self, const c10::Scalar& value) { check_fits(self.scalar_type(), value); }

void check_factor(const c10::Scalar& value, std::initializer_list<const Tensor*> tensors) {
  auto type = at::kBool;
  for (const Tensor* t : tensors) type = c10::promoteTypes(type, t->scalar_type());
  if (c10::isIntegralType(type, /*includeBool=*/false)) return check_fits(type, value);
  if (C10_UNLIKELY(value.isComplex() && !c10::isComplexType(type))) (void)value.to<float>();
}

void check_clamp(const Tensor& self, const std::optional<c10::Scalar>& min, const std::optional<c10::Scalar>& max) {
  auto type = self.scalar_type();
  for (const auto* bound : {&min, &max})
    if (bound->has_value()) type = c10::promoteTypes(type, at::result_type(self, **bound));
  for (const auto* bound : {&min, &max})
    if (bound->has_value()) check_fits(type, **bound);
}

void check_where(const Tensor& condition) {
  if (condition.scalar_type() == at::kByte) {
    TORCH_WARN_ONCE(
        "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version "
        "of PyTorch. Use a boolean condition instead.");
    return;
  }
  TORCH_CHECK(condition.scalar_type() == at::kBool,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ", condition.scalar_type());
}

void check_dot(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ", other.dim(),
              "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              self.scalar_type(), " and ", other.scalar_type());
  TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor [", self.numel(), "] and src [",
              other.numel(), "] to have the same number of elements, but got ", self.numel(), " and ", other.numel(),
              " elements respectively");
}

void check_addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const c10::Scalar& beta,
                const c10::Scalar& alpha) {
  TORCH_CHECK(vec1.dim() == 1, "addr: Expected 1-D argument vec1, but got ", vec1.dim(), "-D");
  TORCH_CHECK(vec2.dim() == 1, "addr: Expected 1-D argument vec2, but got ", vec2.dim(), "-D");
  const auto dtype = c10::promoteTypes(self.scalar_type(), c10::promoteTypes(vec1.scalar_type(), vec2.scalar_type()));
  TORCH_CHECK(!alpha.isBoolean() || dtype == at::kBool, "Boolean alpha only supported for Boolean results.");
  TORCH_CHECK(!beta.isBoolean() || dtype == at::kBool, "Boolean beta only supported for Boolean results.");
  const bool whole = c10::isIntegralType(dtype, true);
  TORCH_CHECK(!whole || (!alpha.isFloatingPoint() && !alpha.isComplex()),
              "For integral input tensors, argument alpha must not be a floating point number.");
  TORCH_CHECK(!whole || (!beta.isFloatingPoint() && !beta.isComplex()),
              "For integral input tensors, argument beta must not be a floating point number.");
  at::infer_size(self.sizes(), at::IntArrayRef({vec1.size(0), vec2.size(0)}));
}

void check_index(const Tensor& index, const char* op) {
  TORCH_CHECK_INDEX(index.dim() <= 1, op, "(): Index is supposed to be a vector");
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt, op,
              "(): Expected dtype int32 or int64 for index");
}

void check_long_index(const Tensor& index, const char* op) {
  TORCH_CHECK(index.scalar_type() == at::kLong, op, "(): Expected a long tensor for index, but got ",
              index.scalar_type());
}

void check_steps(int64_t steps) { TORCH_CHECK(steps >= 0, "number of steps must be non-negative"); }

void check_matrix(const Tensor& self, const char* op) {
  TORCH_CHECK(self.dim() == 2, op, ": expected a matrix, but got tensor with dim ", self.dim());
}

void check_floating(const Tensor& self, const char* op) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()), op, "() only supports floating-point dtypes, but got ",
              self.scalar_type());
}

void check_not_complex(const Tensor& self, const char* op) {
  TORCH_CHECK(!self.is_complex(), op, " does not support complex inputs");
}

void check_same_dtype(const Tensor& self, const Tensor& source, const char* op) {
  TORCH_CHECK(self.scalar_type() == source.scalar_type(), op,
              "(): self and source expected to have the same dtype, but got (self) ", self.scalar_type(),
              " and (source) ", source.scalar_type());
}

void check_complex_parts(const Tensor& real, const Tensor& imag) {
  const auto is_part = [](at::ScalarType t) { return t == at::kFloat || t == at::kDouble || t == at::kHalf; };
  TORCH_CHECK(is_part(real.scalar_type()) && is_part(imag.scalar_type()),
              "Expected both inputs to be Half, Float or Double tensors but got ", real.scalar_type(), " and ",
              imag.scalar_type());
  TORCH_CHECK(real.scalar_type() == imag.scalar_type(), "Expected object of scalar type ", real.scalar_type(),
              " but got scalar type ", imag.scalar_type(), " for second argument");
}

void check_put(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  check_long_index(index, "put_");
  check_same_dtype(self, source, "put_");
  TORCH_CHECK_INDEX(source.numel() == index.numel(),
                    "put_(): Expected source and index to have the same number of elements, but got "
                    "source.numel() = ",
                    source.numel(), ", index.numel() = ", index.numel());
  TORCH_CHECK_INDEX(self.numel() > 0 || index.numel() == 0, "put_(): Tried to put elements into an empty tensor");
  at::assert_no_overlap(self, index);
  at::assert_no_overlap(self, source);
  if (!accumulate) at::globalContext().alertNotDeterministic("put_");
}

void check_take(const Tensor& self, const Tensor& index) {
  check_long_index(index, "take");
  TORCH_CHECK_INDEX(self.numel() > 0 || index.numel() == 0, "take(): tried to take from an empty tensor");
}

void check_index_put(const Tensor& self, at::IOptTensorListRef indices, const Tensor& values) {
  TORCH_CHECK_INDEX(static_cast<int64_t>(indices.size()) <= self.dim(), "too many indices for tensor of dimension ",
                    self.dim(), " (got ", indices.size(), ")");
  TORCH_CHECK(self.scalar_type() == values.scalar_type(),
              "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
              " for the destination and ", values.scalar_type(), " for the source.");
  // The shape of what is indexed: that of the indices together, where the first of them stands if they are neighbours,
  // else in front.
  at::DimVector before, after;
  std::vector<int64_t> indexed;
  bool any = false, gap = false, apart = false, masks = false;
  int64_t dim = 0;
  for (const at::OptionalTensorRef& index : indices) {
    if (!index.has_value() || !index->defined()) {
      gap = any;
      (any ? after : before).push_back(self.size(dim++));
      continue;
    }
    const auto type = index->scalar_type();
    const bool mask = is_mask(*index);
    TORCH_CHECK_INDEX(mask || type == at::kLong || type == at::kInt,
                      "tensors used as indices must be long, int, byte or bool tensors");
    if (type == at::kByte)
      TORCH_WARN("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.");
    apart |= gap;
    any = true;
    if (!mask) {
      dim++;
      TORCH_CHECK_INDEX(at::are_expandable(indexed, index->sizes()),
                        "shape mismatch: indexing tensors could not be broadcast together "
                        "with shapes ",
                        indexed, ", ", index->sizes());
      indexed = at::infer_size(indexed, index->sizes());
      continue;
    }
    masks = true;
    for (int64_t i = 0; i < index->dim(); i++, dim++)
      TORCH_CHECK_INDEX(dim < self.dim() && index->size(i) == self.size(dim), "The shape of the mask ", index->sizes(),
                        " at index ", i, " does not match the shape of the indexed tensor ", self.sizes(), " at index ",
                        dim);
  }
  if (masks) return;  // how many elements they choose is known to the device
  for (; dim < self.dim(); dim++) after.push_back(self.size(dim));
  at::DimVector shape(apart ? at::DimVector() : before);
  shape.append(indexed.begin(), indexed.end());
  if (apart) shape.append(before.begin(), before.end());
  shape.append(after.begin(), after.end());
  TORCH_CHECK(at::is_expandable_to(values.sizes(), shape), "shape mismatch: value tensor of shape ", values.sizes(),
              " cannot be broadcast to indexing result of shape ", at::IntArrayRef(shape));
}

void check_apart(const Tensor& self, at::IOptTensorListRef indices, const Tensor& values, bool accumulate) {
  bool masked = false;
  for (const at::OptionalTensorRef& index : indices) {
    if (!index.has_value() || !index->defined()) continue;
    at::assert_no_overlap(self, *index);
    masked |= is_mask(*index);
  }
  if (accumulate || !masked || values.numel() != 1)
    at::assert_no_overlap(self, values);  // upstream fills, where a mask takes one number
}

void check_masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source) {
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter: expected self and source to have same dtypes but got", self.scalar_type(), " and ",
              source.scalar_type());
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_scatter_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  mask.expand(self.sizes());  // raises, in upstream's words
}

void check_grid(const Tensor& input, const Tensor& grid, int64_t interpolation_mode) {
  at::native::check_grid_sampler_common(input, grid);
  if (input.dim() == 4)
    at::native::check_grid_sampler_2d(input, grid);
  else
    at::native::check_grid_sampler_3d(input, grid, interpolation_mode);
}

void check_boundaries(const Tensor& boundaries) {
  TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(", boundaries.dim(), ")");
}

void check_search(const Tensor& sequence, const Tensor& values, bool right, std::optional<std::string_view> side,
                  const std::optional<Tensor>& sorter) {
  const Tensor indices = at::empty({0}, at::kLong);  // stands for the output, whose type our rule decides
  at::native::searchsorted_pre_check(sequence, values, indices, /*out_int32=*/false, right, side,
                                     sorter.value_or(Tensor()));
}

void check_channel_shuffle(const Tensor& self, int64_t groups) {
  TORCH_CHECK(self.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ", self.sizes());
  TORCH_CHECK(groups > 0, "Number of groups to divide channels in must be positive.", " Value of groups:", groups);
  TORCH_CHECK(self.size(1) % groups == 0, "Number of channels must be divisible by groups. Got ", self.size(1),
              " channels and ", groups, " groups.");
}

void check_kth(const Tensor& self, int64_t k, int64_t dim) {
  const int64_t length = self.dim() ? self.size(at::maybe_wrap_dim(dim, self.dim())) : 1;
  TORCH_CHECK(k >= 1 && k <= length, "kthvalue(): selected number k out of range for dimension ", dim);
}

void check_reduced_dim(const Tensor& self, int64_t dim, const char* op) {
  const int64_t d = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(self.dim() == 0 || self.size(d) != 0, op, "(): Expected reduction dim ", d,
                    " to have non-zero size.");
}

void check_not_empty(const Tensor& self, const char* op) {
  TORCH_CHECK(self.numel() > 0, op,
              "(): Expected reduction dim to be specified for input.numel() == 0. "
              "Specify the reduction dim with the 'dim' argument.");
}

void check_histc(int64_t bins, const c10::Scalar& min, const c10::Scalar& max) {
  TORCH_CHECK(bins > 0, "torch.histogram(): bins must be > 0, but got ", bins, " for dimension 0");
  TORCH_CHECK(min.toDouble() <= max.toDouble(), "torch.histc: max must be larger than min");
}

void check_square(const Tensor& self, const char* op) {
  TORCH_CHECK(self.is_floating_point() || self.is_complex(), op,
              ": Expected a floating point or complex tensor as input. Got ", self.scalar_type());
  TORCH_CHECK(self.dim() >= 2, op, ": The input tensor A must have at least 2 dimensions.");
  TORCH_CHECK(self.size(-1) == self.size(-2), op, ": A must be batches of square matrices, but they are ",
              self.size(-2), " by ", self.size(-1), " matrices");
}

void check_ctc(const Tensor& log_probs, const Tensor& targets, at::IntArrayRef input_lengths,
               at::IntArrayRef target_lengths, int64_t blank) {
  TORCH_CHECK(log_probs.dim() == 3 && log_probs.numel() > 0,
              "ctc_loss: expected log_probs of three dimensions that are not empty, but got ", log_probs.sizes());
  const auto batch = static_cast<size_t>(log_probs.size(1));
  TORCH_CHECK(0 <= blank && blank < log_probs.size(2), "blank must be in label range");
  TORCH_CHECK(input_lengths.size() == batch, "input_lengths must be of size batch_size");
  TORCH_CHECK(target_lengths.size() == batch, "target_lengths must be of size batch_size");
  int64_t all = 0, longest = 0;
  for (const int64_t n : target_lengths) {
    TORCH_CHECK(n >= 0, "Expected target_lengths to have value at least 0, but got value ", n);
    all += n;
    longest = std::max(longest, n);
  }
  for (const int64_t n : input_lengths) {
    TORCH_CHECK(n >= 0, "Expected input_lengths to have value at least 0, but got value ", n);
    TORCH_CHECK(n <= log_probs.size(0), "Expected input_lengths to have value at most ", log_probs.size(0),
                ", but got value ", n);
  }
  if (targets.dim() == 1) {
    TORCH_CHECK(targets.size(0) == all, "Expected targets to have size ", all, ", the sum of target_lengths, but got ",
                targets.sizes());
  } else {
    TORCH_CHECK(targets.dim() == 2 && targets.size(0) == log_probs.size(1) && targets.size(1) >= longest,
                "Expected targets to have a row for each element of the batch and at least ", longest,
                " columns, but got ", targets.sizes());
  }
}

void check_nll2d(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight) {
  TORCH_CHECK(target.dim() == 3,
              "only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.dim());
  TORCH_CHECK(self.dim() == 4,
              "only batches of spatial inputs supported (4D tensors), but got input of dimension: ", self.dim());
  TORCH_CHECK(!weight.has_value() || !weight->defined() || weight->numel() == self.size(1),
              "weight tensor should be defined either for all or no classes");
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
}

void check_linalg(const Tensor& info, const char* op, bool is_matrix) { at::_linalg_check_errors(info, op, is_matrix); }

void check_converged(const Tensor& values, const char* op, bool is_matrix) {
  if (values.numel() == 0) return;
  constexpr int kNotFinite = -4;  // LAPACK's number for that of a singular value decomposition
  const int info = std::string_view(op) == "linalg.svd" ? kNotFinite : 1;
  const auto failed = values.isnan();
  if (failed.any().item<bool>()) check_linalg(failed.any(-1).to(at::kInt).mul_(info), op, is_matrix);
}

void check_finite(const Tensor& self, const char* op) {
  TORCH_CHECK(at::isfinite(self).all().item<bool>(), op, ": input tensor should not contain infs or NaNs.");
}

}  // namespace npu::ops
