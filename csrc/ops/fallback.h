// The CPU fallback: operators without a kernel here are computed on the host, announced once and counted.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace npu::ops {

std::vector<std::pair<std::string, uint64_t>> fallback_counts();  // operator name -> calls, most frequent first
void reset_fallback_counts();

}  // namespace npu::ops
