// Who launched what failed: csrc/aclnn keeps the last launches on demand (aclnn/origins.h), and errors ask for them.
#pragma once

#include <string>

namespace npu::acl {

// The sentence about the launch that `words`, a report of the device, is about.
using FindOrigin = std::string (*)(const std::string& words);
void set_find_origin(FindOrigin function) noexcept;  // null: launches are not kept

}  // namespace npu::acl
