#include "runtime/storage_format.h"

namespace npu::formats {

const Layout* find_layout(const c10::StorageImpl* storage) {
  const auto* formatted = dynamic_cast<const FormattedStorage*>(storage);
  return formatted ? &formatted->layout : nullptr;
}

}  // namespace npu::formats
