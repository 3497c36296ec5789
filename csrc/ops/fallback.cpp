#include "fallback.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "acl/config.h"

namespace npu::ops {

namespace {

std::mutex mutex;
std::map<std::string, uint64_t>& counts() {
  static auto* map = new std::map<std::string, uint64_t>;
  return *map;
}

void cpu_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto name = c10::toString(op.operator_name());
  bool first;
  {
    std::lock_guard lock(mutex);
    first = counts()[name]++ == 0;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(!config::fallback_cpu_disabled(), "The operator '", name, "' has no npu kernel and the CPU "
      "fallback is disabled; unset TORCH_NPU_FALLBACK_CPU_DISABLE or move the tensors to the CPU for this call.");
  if (first)
    TORCH_WARN("The operator '", name, "' runs on the CPU: it has no npu kernel yet. The result is correct, but slower. "
               "TORCH_NPU_FALLBACK_CPU_DISABLE=1 makes this an error.");
  at::native::cpu_fallback(op, stack);
}

}  // namespace

std::vector<std::pair<std::string, uint64_t>> fallback_counts() {
  std::lock_guard lock(mutex);
  std::vector<std::pair<std::string, uint64_t>> all(counts().begin(), counts().end());
  std::stable_sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.second > b.second; });
  return all;
}

void reset_fallback_counts() {
  std::lock_guard lock(mutex);
  counts().clear();
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>()); }

}  // namespace npu::ops
