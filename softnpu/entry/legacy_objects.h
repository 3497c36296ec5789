// What a client builds for a call of the operator interface before aclnn: descriptors, buffers and attributes, which
// keep what they are told.
#pragma once

#include <string>

#include "entry.h"
#include "runtime/legacy.h"
#include "runtime/life.h"

struct aclTensorDesc : softnpu::Life {
  aclDataType dtype;
  aclFormat format, stored_format;    // of the elements' order, and of the memory
  std::vector<int64_t> dims, stored;  // of the elements, and of the memory
  std::string name;
  bool on_host;
};
struct aclDataBuffer : softnpu::Life {
  void* data;
  size_t size;
};
struct aclopAttr : softnpu::Life {
  std::map<std::string, softnpu::LegacyAttribute> values;
};

namespace softnpu {

// Copies of what lives behind the handles. Throw Failure for what is no live object of its kind.
LegacyTensor read_tensor(const aclTensorDesc* desc, const aclDataBuffer* buffer);
std::map<std::string, LegacyAttribute> read_attributes(const aclopAttr* attributes);  // NULL: none

}  // namespace softnpu
