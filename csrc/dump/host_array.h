// A tensor of the card, copied to the host: contiguous, in the form in which it is written.
#pragma once

#include <c10/util/ArrayRef.h>

#include <memory>
#include <string>
#include <vector>

#include "dump/element_type.h"

namespace npu::dump {

// Where a tensor lies on the card, as an operator gets it.
struct DeviceArray {
  aclDataType type = ACL_DT_UNDEFINED;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  uint64_t storage_bytes = 0;
  const void* storage = nullptr;
};

class HostArray {
 public:
  explicit HostArray(const DeviceArray& from);  // copies; whoever calls has waited for what writes it

  const ElementType& type() const { return *type_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  size_t bytes() const { return count_ * type_->written; }
  Statistics statistics() const { return type_->measure(data_.get(), count_); }
  // As an .npy file that must not exist yet. Returns 0 or errno; nothing is left of a file that failed.
  int save(const std::string& path) const;

 private:
  const ElementType* type_;
  std::vector<int64_t> sizes_;
  size_t count_;
  std::unique_ptr<char[]> data_;
};

}  // namespace npu::dump
