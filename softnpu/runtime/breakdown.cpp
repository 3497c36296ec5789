#include "breakdown.h"

#include <algorithm>
#include <mutex>
#include <string>

#include "address.h"
#include "context.h"
#include "error.h"
#include "stream.h"

namespace softnpu {

namespace {

std::mutex g_mutex;
Breakdown g_breakdowns[kMaxCards];

bool is_lost(int code) { return code == ACL_ERROR_RT_DRV_INTERNAL_ERROR || code == ACL_ERROR_RT_LOST_HEARTBEAT; }

}  // namespace

void break_down(int card, int code, void* memory, size_t bytes, const std::string& why) {
  Context* context = open_context(card);
  if (!context) fail(ACL_ERROR_RT_CONTEXT_NULL, "device %d is not in use: there is nothing to fail", card);
  if (code == 0) fail(ACL_ERROR_RT_PARAM_INVALID, "code 0 is no failure");
  if (memory && !is_device_address(memory))
    fail(ACL_ERROR_RT_PARAM_INVALID, "memory %p is no address of a card", memory);
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    auto& all = g_breakdowns[card];
    if (memory && all.ranges.size() == MAX_MEM_UCE_INFO_ARRAY_SIZE)
      fail(ACL_ERROR_RT_PARAM_INVALID, "device %d has %zu faults of memory; no more are kept", card, all.ranges.size());
    all.code = code;
    if (memory) all.ranges.push_back({memory, bytes, {}});
  }
  context->lost.store(is_lost(code));
  for (Stream* stream : streams_of(*context)) stream->break_down(code, why.c_str());
}

Breakdown breakdown_of(int card) {
  std::lock_guard<std::mutex> lock(g_mutex);
  return g_breakdowns[card];
}

void repair(int card, const aclrtMemUceInfo* ranges, size_t count) {
  std::lock_guard<std::mutex> lock(g_mutex);
  auto& all = g_breakdowns[card];
  for (size_t i = 0; i < count; i++) {
    const auto found = std::find_if(all.ranges.begin(), all.ranges.end(), [&](const aclrtMemUceInfo& range) {
      return range.addr == ranges[i].addr && range.len == ranges[i].len;
    });
    if (found == all.ranges.end())
      fail(ACL_ERROR_RT_PARAM_INVALID, "memUceInfoArray[%zu]: %zu bytes at %p have no fault", i, ranges[i].len,
           ranges[i].addr);
    all.ranges.erase(found);
  }
  if (all.ranges.empty()) all.code = 0;
}

void repair_all(int card) {
  std::lock_guard<std::mutex> lock(g_mutex);
  g_breakdowns[card] = {};
}

}  // namespace softnpu

int softnpu_break_down(int device, int code, void* memory, size_t bytes) {
  return softnpu::guard("softnpu_break_down", [&] {
    const int card = softnpu::card_of_device(device);
    softnpu::break_down(card, code, memory, bytes,
                        "card " + std::to_string(card) + " broke down on demand (softnpu_break_down)");
  });
}
