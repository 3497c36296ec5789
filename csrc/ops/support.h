// What is registered, for reports (torch_npu.utils.op_support).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace npu::ops {

// Every operator with an npu kernel ("aten::add.Tensor") and the provider's operators that it calls.
std::vector<std::pair<std::string, std::string>> operators();

}  // namespace npu::ops
