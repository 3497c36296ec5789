#include "ops/checks/families.h"

#include "ops/checks/common.h"

#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/LossMulti.h>
#include <ATen/ops/empty.h>

namespace npu::ops {

namespace {

void check_long(const Tensor& target) {
  TORCH_CHECK(target.scalar_type() == at::kLong, "expected scalar type Long but found ", target.scalar_type());
}

}  // namespace

void check_gelu(std::string_view approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh", "approximate argument must be either none or tanh.");
}

void check_huber(double delta) { TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta."); }

void check_multi_margin(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight) {
  int64_t frames = 0, classes = 0;
  const bool weighted = weight.has_value() && weight->defined();
  at::native::multi_margin_loss_shape_check(frames, classes, self.dim(), self, target,
                                            weighted ? weight : std::nullopt);
  if (target.numel() > 0) check_long(target);
}

void check_multilabel_margin(const Tensor& self, const Tensor& target) {
  int64_t frames = 0, classes = 0;
  at::native::multilabel_margin_loss_shape_check(frames, classes, self.dim(), self, target);
  check_long(target);
}

void check_unpool(const Tensor& self, const Tensor& indices, const char* op) {
  at::globalContext().alertNotDeterministic(op);
  TORCH_CHECK(indices.scalar_type() == at::kLong,
              "elements in indices should be type int64 but got: ", indices.scalar_type());
  TORCH_CHECK(self.sizes() == indices.sizes(), "Expected shape of indices to be same as that of the input tensor (",
              self.sizes(), ") but got indices tensor with shape: ", indices.sizes());
}

void check_max_pool3d(const Tensor& self) {
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5, "max_pool3d: Expected 4D or 5D tensor, but got ", self.sizes());
  for (int64_t d = self.dim() == 5 ? 1 : 0; d < self.dim(); d++)
    TORCH_CHECK(self.size(d) > 0,
                "max_pool3d: Expected input's non-batch dimensions to have positive length, but input has a shape of ",
                self.sizes(), " and non-batch dimension ", self.size(d), " has length zero!");
}

void check_dims(const Tensor& self, at::IntArrayRef dims) { at::dim_list_to_bitset(dims, self.dim()); }

Tensor as_classes(const Tensor& target) {
  return target.scalar_type() == at::kInt ? at::empty(target.sizes(), at::device(at::kMeta).dtype(at::kLong)) : target;
}

void check_roll(const Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  if (dims.empty() && shifts.size() == 1) return;
  TORCH_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
              ", dims:", dims.size());
  if (self.numel() == 0) return;
  for (const int64_t d : dims) at::maybe_wrap_dim(d, self.dim(), /*wrap_scalar=*/false);
}

void warn_of_expanded(const Tensor& self, const char* op) {
  if (at::has_internal_overlap(self) != at::MemOverlap::Yes) return;
  TORCH_WARN(
      "Use of ", op,
      " on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This also "
      "applies to advanced indexing e.g. tensor[mask] = scalar");
}

void check_index_fill(const Tensor& self, const Tensor& index, const c10::Scalar& value) {
  check_index(index, "index_fill_");
  TORCH_CHECK(self.is_complex() || !value.isComplex(),
              "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  check_fits(self, value);
}

void check_masked_fill(const Tensor& self, const Tensor& mask, const c10::Scalar& value) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  check_fits(self, value);
  warn_of_expanded(self, "masked_fill_");
  at::assert_no_partial_overlap(self, mask);
  TORCH_CHECK(at::is_expandable_to(mask.sizes(), self.sizes()),
              "The expanded size of the mask must match the tensor, but they are ", mask.sizes(), " and ",
              self.sizes());
}

void check_masked_fill(const Tensor& self, const Tensor& mask, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  check_masked_fill(self, mask,
                    value.is_cpu()       ? value.item()
                    : value.is_complex() ? c10::Scalar(c10::complex<double>(0, 1))
                                         : c10::Scalar(0));
}

void check_ormqr(const Tensor& self, const Tensor& tau, const Tensor& other, bool left) {
  TORCH_CHECK(self.dim() >= 2, "torch.ormqr: input must have at least 2 dimensions.");
  TORCH_CHECK(other.dim() >= 2, "torch.ormqr: other must have at least 2 dimensions.");
  const int64_t rows = other.size(left ? -2 : -1);
  TORCH_CHECK(rows >= tau.size(-1), "torch.ormqr: other.shape[", left ? -2 : -1,
              "] must be greater than or equal to tau.shape[-1]");
  TORCH_CHECK(rows == self.size(-2), "torch.ormqr: other.shape[", left ? -2 : -1, "] must be equal to input.shape[-2]");
  TORCH_CHECK(tau.size(-1) <= self.size(-1),
              "torch.ormqr: tau.shape[-1] must be less than or equal to input.shape[-1]");
  TORCH_CHECK(self.dim() - tau.dim() == 1,
              "torch.ormqr: Expected tau to have one dimension less than input, but got tau.ndim equal to ", tau.dim(),
              " and input.ndim is equal to ", self.dim());
  TORCH_CHECK(self.dim() == other.dim(),
              "torch.ormqr: Expected other to have the same number of dimensions as input, but got ", other.dim(),
              " and ", self.dim());
  TORCH_CHECK(tau.scalar_type() == self.scalar_type() && other.scalar_type() == self.scalar_type(),
              "torch.ormqr: Expected input, tau and other to have the same dtype");
}

void check_no_overlap(const Tensor& out) { at::assert_no_internal_overlap(out); }

void check_segments(const Tensor& data, const std::optional<Tensor>& lengths, int64_t axis, bool is_unchecked) {
  if (is_unchecked || !lengths.has_value() || !lengths->defined() || lengths->numel() == 0) return;
  const int64_t places = data.size(axis);
  TORCH_CHECK(lengths->min().item<int64_t>() >= 0, "lengths contains negative value!");
  TORCH_CHECK(lengths->sum(-1).eq(places).all().item<bool>(), "Expected all rows of lengths along axis ",
              lengths->dim() - 1, " to sum to ", places, ", the size of data there, when !unsafe.");
}

}  // namespace npu::ops
