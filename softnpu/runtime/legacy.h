// Calls of the operator interface before aclnn, on their way from the C functions (entry/legacy.cpp), which know what a
// client described, to the operators (kernels/engine/legacy.cpp), which know torch.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "acl_types.h"

#pragma GCC visibility push(default)
namespace softnpu {

class Task;

// A descriptor and its buffer. One without a data type stands for an optional tensor that is not there.
struct LegacyTensor {
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat order = ACL_FORMAT_ND;   // of the elements
  aclFormat format = ACL_FORMAT_ND;  // in which the memory lies
  std::vector<int64_t> sizes;        // of the elements
  std::vector<int64_t> stored;       // of the memory
  std::string name;                  // of the argument, where the client gave it
  bool on_host = false;              // a constant, which is read before the call returns
  void* data = nullptr;
  size_t bytes = 0;
};

using LegacyAttribute = std::variant<bool, int64_t, float, std::string, aclDataType, std::vector<uint8_t>,
                                     std::vector<int64_t>, std::vector<float>, std::vector<std::vector<int64_t>>>;

struct LegacyCall {
  std::string type;  // the operator's
  std::vector<LegacyTensor> inputs, outputs;
  std::map<std::string, LegacyAttribute> attributes;
};

// Makes the task of a call that runs on `card`. Throws Failure for an operator that is not there, and for arguments
// that it does not take.
using LegacyOperators = Task* (*)(const LegacyCall& call, int card);
// Told by the library of operators when it is loaded.
void set_legacy_operators(LegacyOperators operators) noexcept;

}  // namespace softnpu
#pragma GCC visibility pop

namespace softnpu {

// Loads that library if need be. Throws Failure.
Task* legacy_task(const LegacyCall& call, int card);

}  // namespace softnpu
