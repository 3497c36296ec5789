#include "ops/tensor.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>

#include "aclnn/op.h"
#include "memory/caching_allocator.h"
#include "ops/provider.h"

namespace npu::ops {

namespace {
constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);
}

Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, at::MemoryFormat format) {
  const auto type = c10::scalarTypeToTypeMeta(dtype);
  // Which warns of complex numbers of half precision.
  if (C10_UNLIKELY(format != at::MemoryFormat::Contiguous || dtype == at::kComplexHalf))
    return at::detail::empty_generic(sizes, caching_allocator::get(), kKeys, dtype, format);
  int64_t elements = 1;
  bool overflow = false;
  for (const int64_t n : sizes) {
    TORCH_CHECK(n >= 0, "Trying to create tensor with negative dimension ", n, ": ", sizes);
    overflow |= __builtin_mul_overflow(elements, n, &elements);
  }
  size_t bytes;
  overflow |= __builtin_mul_overflow(static_cast<size_t>(elements), type.itemsize(), &bytes);
  TORCH_CHECK(!overflow, "Storage size calculation overflowed with sizes=", sizes);
  auto* allocator = caching_allocator::get();
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                       allocator->allocate(bytes), allocator, /*resizable=*/true);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), kKeys, type);
  if (sizes.size() != 1 || sizes[0] != 0) tensor.unsafeGetTensorImpl()->generic_set_sizes_contiguous(sizes);
  return tensor;
}

Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  return at::detail::empty_strided_generic(sizes, strides, caching_allocator::get(), kKeys, dtype);
}

Tensor& write_out(Tensor& out, const Tensor& result) {
  TORCH_CHECK(c10::canCast(result.scalar_type(), out.scalar_type()), "result type ", result.scalar_type(),
              " can't be cast to the desired output type ", out.scalar_type());
  TORCH_CHECK(out.device() == result.device(), "Expected out tensor to have device ", result.device(), ", but got ",
              out.device(), " instead");
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

c10::Scalar read_cpu_scalar(const Tensor& t) {
  c10::Scalar value;
  AT_DISPATCH_V2(t.scalar_type(), "read_cpu_scalar", AT_WRAP([&] { value = *t.const_data_ptr<scalar_t>(); }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kHalf, at::kBFloat16,
                 at::kBool, at::kComplexHalf);
  return value;
}

Tensor on_device(const Tensor& t, at::ScalarType dtype) {
  if (!is_cpu_scalar(t)) return t;
  auto out = empty({}, dtype);
  NPU_EXEC(aclnnInplaceFillScalar, out, read_cpu_scalar(t));
  return out;
}

const Tensor& first_npu(std::initializer_list<const Tensor*> tensors) {
  for (const auto* t : tensors)
    if (t->defined() && is_npu(*t)) return *t;
  return **tensors.begin();
}

void check_same_device(const char* op, std::initializer_list<const Tensor*> tensors) {
  const Tensor* first = nullptr;
  for (const auto* t : tensors) {
    if (!t->defined()) continue;
    if (!first) {
      first = t;
      continue;
    }
    TORCH_CHECK(t->device() == first->device(),
                "Expected all tensors to be on the same device, but found at least two devices, ", first->device(),
                " and ", t->device(), "! (when checking arguments of ", op, ")");
  }
}

namespace {

// A mask as the places that it marks: one list for each of its dimensions.
void add_places(std::vector<std::optional<Tensor>>& indices, const Tensor& self, const Tensor& mask) {
  const auto first = static_cast<int64_t>(indices.size());
  for (int64_t d = 0; d < mask.dim(); d++)
    TORCH_CHECK_INDEX(first + d < self.dim() && mask.size(d) == self.size(first + d), "The shape of the mask ",
                      mask.sizes(), " at index ", d, " does not match the shape of the indexed tensor ", self.sizes(),
                      " at index ", first + d);
  static const bool has_rows = has_op("aclnnNonzeroV2");
  if (!has_rows || mask.dim() == 0 || mask.numel() == 0) {
    const auto places = mask.nonzero();
    for (int64_t d = 0; d < mask.dim(); d++) indices.emplace_back(places.select(1, d).contiguous());
    return;
  }
  const auto room = empty({mask.dim(), mask.numel()}, at::kLong);
  const int64_t count = NPU_EXEC_SHAPES(aclnnNonzeroV2, 1, mask, room)[0][1];
  // The device packs the rows that it fills.
  const auto places = room.view({-1}).narrow(0, 0, mask.dim() * count).view({mask.dim(), count});
  for (int64_t d = 0; d < mask.dim(); d++) indices.emplace_back(places.select(0, d));
}

}  // namespace

std::vector<std::optional<Tensor>> indices_of(const Tensor& self, at::IOptTensorListRef indices) {
  std::vector<std::optional<Tensor>> result;
  result.reserve(indices.size());
  for (const at::OptionalTensorRef index : indices) {
    if (!index.has_value() || !index->defined())
      result.emplace_back();
    else if (!on_softnpu() && (index->scalar_type() == at::kBool || index->scalar_type() == at::kByte))
      add_places(result, self, index->to(self.device()));
    else
      result.emplace_back(index->device().is_cpu() ? index->to(self.device()) : *index);
  }
  return result;
}

}  // namespace npu::ops
