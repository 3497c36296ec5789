#include "ops/families/storage.h"

#include "runtime/storage_format.h"

namespace npu::ops {

int64_t change_data_ptr(const at::Tensor& dst, const at::Tensor& src, int64_t index) {
  TORCH_CHECK(index >= 0, "npu_change_data_ptr: index must not be negative, got ", index);
  TORCH_CHECK(dst.scalar_type() == src.scalar_type() && dst.device() == src.device(),
              "npu_change_data_ptr: dst and src must be of one type on one device, got ", dst.scalar_type(), " on ",
              dst.device(), " and ", src.scalar_type(), " on ", src.device());
  TORCH_CHECK(dst.scalar_type() == at::kFloat || dst.scalar_type() == at::kHalf || dst.scalar_type() == at::kBFloat16,
              "npu_change_data_ptr: dst and src must be of float32, float16 or bfloat16, got ", dst.scalar_type());
  if (dst.is_meta()) return 0;
  TORCH_CHECK(!dst.is_alias_of(src), "npu_change_data_ptr: dst and src have one storage already");
  TORCH_CHECK(!formats::layout_of(dst) && !formats::layout_of(src),
              "npu_change_data_ptr: dst and src must not be in a private format; cast them with "
              "torch_npu.npu_format_cast(tensor, torch_npu.Format.ND)");
  const auto item = static_cast<int64_t>(dst.element_size());
  const auto wanted = static_cast<int64_t>(dst.storage().nbytes()) / item;
  const auto there = static_cast<int64_t>(src.storage().nbytes()) / item;
  TORCH_CHECK(index <= there && wanted <= there - index, "npu_change_data_ptr: the storage of dst has ", wanted,
              " elements, that of src ", there, ", which is too few from index ", index);
  // The memory of src lives as long as dst has a part of it.
  auto* const kept = new c10::Storage(src.storage());
  c10::DataPtr part(
      static_cast<char*>(kept->mutable_data()) + index * item, kept,
      [](void* storage) { delete static_cast<c10::Storage*>(storage); }, dst.device());
  dst.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(part));
  return 0;
}

}  // namespace npu::ops
