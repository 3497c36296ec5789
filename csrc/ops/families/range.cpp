// Ranges and fills that a table line cannot say.
#include <ATen/ATen.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>

#include "aclnn/op.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

Tensor& arange_out(const c10::Scalar& start, const c10::Scalar& end, const c10::Scalar& step, Tensor& out) {
  CardGuard guard(out);
  int64_t size = 0;
  if (out.scalar_type() == at::kLong)
    size = at::native::compute_arange_size<int64_t>(start, end, step);
  else
    size = at::native::compute_arange_size<double>(start, end, step);
  if (out.numel() != size) {
    if (out.numel() > 0)
      TORCH_WARN("The number of elements in the out tensor of shape ", out.sizes(), " is ", out.numel(),
                 " which does not match the "
                 "computed number of elements ",
                 size,
                 ". Note that this may occur as a result of rounding error. The out tensor will "
                 "be resized to a tensor of shape (",
                 size, ",).");
    out.resize_({size});
  }
  if (size == 0) return out;
  auto target = out.is_contiguous() ? out : empty(out.sizes(), out.scalar_type());
  NPU_EXEC(aclnnArange, start, end, step, target);
  if (!target.is_same(out)) out.copy_(target);
  return out;
}

Tensor& range_out(const c10::Scalar& start, const c10::Scalar& end, const c10::Scalar& step, Tensor& out) {
  CardGuard guard(out);
  TORCH_CHECK(step.toDouble() != 0, "step must be nonzero");
  const double count = (end.toDouble() - start.toDouble()) / step.toDouble();
  TORCH_CHECK(count >= 0, "upper bound and lower bound inconsistent with step sign");
  Target target(out, ranged(static_cast<int64_t>(count) + 1, out));
  NPU_EXEC(aclnnRange, start, end, step, target.tensor().view({-1}));
  target.finish();
  return out;
}

using Dtype = std::optional<at::ScalarType>;
using Layout = std::optional<at::Layout>;
using Device = std::optional<c10::Device>;

Tensor index_grid(int64_t count, Dtype dtype, Layout layout, Device device, std::optional<bool> pin_memory) {
  return at::empty(
      {2, count},
      at::TensorOptions().dtype(dtype.value_or(at::kLong)).layout(layout).device(device).pinned_memory(pin_memory));
}

// The places of ones, row by row, where the provider has no operator for them.
void places_of(const Tensor& triangle, const Tensor& out) { out.copy_(triangle.nonzero().t()); }

Tensor tril_indices(int64_t row, int64_t col, int64_t offset, Dtype dtype, Layout layout, Device device,
                    std::optional<bool> pin_memory) {
  at::native::check_args(row, col, layout);
  auto out = index_grid(at::native::get_tril_size(row, col, offset), dtype, layout, device, pin_memory);
  CardGuard guard(out);
  if (out.numel() == 0) return out;
  static const bool has = has_op("softnpuTrilIndices");
  if (has)
    NPU_EXEC(softnpuTrilIndices, row, col, offset, out);
  else
    places_of(at::ones({row, col}, out.options().dtype(at::kFloat)).tril_(offset), out);
  return out;
}

Tensor triu_indices(int64_t row, int64_t col, int64_t offset, Dtype dtype, Layout layout, Device device,
                    std::optional<bool> pin_memory) {
  at::native::check_args(row, col, layout);
  auto out = index_grid(row * col - at::native::get_tril_size(row, col, offset - 1), dtype, layout, device, pin_memory);
  CardGuard guard(out);
  if (out.numel() == 0) return out;
  static const bool has = has_op("softnpuTriuIndices");
  if (has)
    NPU_EXEC(softnpuTriuIndices, row, col, offset, out);
  else
    places_of(at::ones({row, col}, out.options().dtype(at::kFloat)).triu_(offset), out);
  return out;
}

Tensor& fill_tensor(Tensor& self, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
              " dimensions.");
  CardGuard guard(self);
  if (value.is_cpu())
    NPU_EXEC(aclnnInplaceFillScalar, self, read_cpu_scalar(value));
  else if (value.device() != self.device())
    NPU_EXEC(aclnnInplaceFillScalar, self, value.item());
  else
    NPU_EXEC(aclnnInplaceFillTensor, self, value);
  return self;
}

}  // namespace

NPU_REGISTER(range) {
  manual("aten::arange", "start_out", &arange_out);
  manual("aten::fill_", "Tensor", &fill_tensor);
  manual("aten::range", "out", &range_out);
  manual("aten::tril_indices", "", &tril_indices);
  manual("aten::triu_indices", "", &triu_indices);
}

}  // namespace npu::ops
