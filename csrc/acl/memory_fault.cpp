#include "acl/memory_fault.h"

#include <exception>
#include <map>
#include <mutex>

#include "acl.h"
#include "acl/runtime_symbol.h"

namespace npu::acl {

namespace {

std::mutex g_mutex;

std::map<int, MemoryFault>& faults() {
  static auto* all = new std::map<int, MemoryFault>;  // leaked: threads may outlive static destruction
  return *all;
}

std::vector<aclrtMemUceInfo> ask(int device) {
  using Get = decltype(::aclrtGetMemUceInfo);
  auto* const get = reinterpret_cast<Get*>(runtime_symbol("aclrtGetMemUceInfo"));
  std::vector<aclrtMemUceInfo> ranges(MAX_MEM_UCE_INFO_ARRAY_SIZE);
  size_t count = 0;
  if (!get || get(device, ranges.data(), ranges.size(), &count) != 0) count = 0;
  ranges.resize(count);
  return ranges;
}

}  // namespace

void remember_memory_fault(int code, int device) noexcept {
  const bool multi_bit = code == ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR;
  if ((code != ACL_ERROR_RT_DEVICE_MEM_ERROR && !multi_bit) || device < 0) return;
  try {
    auto ranges = ask(device);
    std::lock_guard lock(g_mutex);
    faults()[device] = {multi_bit, std::move(ranges)};
  } catch (const std::exception&) {  // the error itself is on its way to the user
  }
}

MemoryFault memory_fault(int device) {
  std::lock_guard lock(g_mutex);
  const auto found = faults().find(device);
  return found == faults().end() ? MemoryFault{} : found->second;
}

void forget_memory_fault(int device) {
  std::lock_guard lock(g_mutex);
  faults().erase(device);
}

}  // namespace npu::acl
