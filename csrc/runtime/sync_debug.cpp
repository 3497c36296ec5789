#include "runtime/sync_debug.h"

#include <c10/util/Exception.h>

namespace npu::sync_debug {

std::atomic<int> mode{silent};

void report() {
  constexpr auto kText =
      "called a synchronizing NPU operation: the host waits for the card (torch.npu.set_sync_debug_mode)";
  TORCH_CHECK(mode.load(std::memory_order_relaxed) != error, kText);
  TORCH_WARN(kText);
}

}  // namespace npu::sync_debug
