#include "trace.h"

#include <cstring>

#include "stream.h"

namespace softnpu {

Counters g_counters;

}  // namespace softnpu

extern "C" uint64_t softnpu_counter(const char* name) {
  using softnpu::g_counters;
  if (!name) return UINT64_MAX;
  if (strcmp(name, "tasks") == 0) return softnpu::executed_tasks();
  const struct {
    const char* name;
    std::atomic<uint64_t>& value;
  } table[] = {{"h2d_copies", g_counters.h2d_copies},
               {"d2h_copies", g_counters.d2h_copies},
               {"d2d_copies", g_counters.d2d_copies},
               {"synchronizations", g_counters.synchronizations},
               {"copy_helpers", g_counters.copy_helpers},
               {"allocations", g_counters.allocations},
               {"frees", g_counters.frees}};
  for (const auto& counter : table)
    if (strcmp(counter.name, name) == 0) return counter.value.load(std::memory_order_relaxed);
  return UINT64_MAX;
}
