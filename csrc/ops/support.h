// What is registered, for reports (torch_npu.utils.op_support).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace npu::ops {

// Every operator with an npu kernel ("aten::add.Tensor") and the provider's operators that it calls.
std::vector<std::pair<std::string, std::string>> operators();

// Operators whose npu kernel was withdrawn when the provider was loaded, and the name that it lacks for each.
std::vector<std::pair<std::string, std::string>> withdrawn_operators();

// Operators npu::NAME that are registered only to be refused, and why.
std::map<std::string, std::string> refused_operators();

}  // namespace npu::ops
