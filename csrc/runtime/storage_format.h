// Memory in a private format of the device. Note [Private formats]: the matrix unit reads FRACTAL_NZ, blocks of 16 rows
// and C0 columns, and NC1HWC0 has the channels of images in blocks. A tensor that npu_format_cast() made so has a
// FormattedStorage, which knows the sizes on both sides; views share it. For torch such a tensor has the sizes, strides
// and offset of the same elements in their order. What takes the format is given it (csrc/aclnn/format.cpp); everything
// else gets a copy in element order, and what it wrote is put into blocks again. So values are always right, and a
// format is about speed alone. These storages cannot be resized, which is the flag that the hot path looks at.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>

#include "acl_types.h"

namespace npu::formats {

struct Layout {
  aclFormat format;
  at::ScalarType type;
  c10::SmallVector<int64_t, 6> sizes;   // of the elements
  c10::SmallVector<int64_t, 6> stored;  // of the blocks
};

class FormattedStorage final : public c10::StorageImpl {
 public:
  FormattedStorage(Layout layout, size_t bytes, c10::DataPtr memory, c10::Allocator* allocator)
      : StorageImpl(use_byte_size_t(), bytes, std::move(memory), allocator, /*resizable=*/false),
        layout(std::move(layout)) {}
  const Layout layout;
};

const Layout* find_layout(const c10::StorageImpl* storage);

// Null for memory in element order.
inline const Layout* layout_of(const c10::StorageImpl* storage) {
  return C10_LIKELY(storage->resizable()) ? nullptr : find_layout(storage);
}
inline const Layout* layout_of(const at::Tensor& t) {
  if (!t.defined() || !t.device().is_privateuseone() || !t.has_storage()) return nullptr;
  return layout_of(t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}

}  // namespace npu::formats
