// torch.npu.set_sync_debug_mode: whether operators that make the host wait for a card say so. As in torch.cuda,
// explicit waits (synchronize() of cards, streams and events) are none of them.
#pragma once

#include <c10/macros/Macros.h>

#include <atomic>

namespace npu::sync_debug {

enum Mode : int { silent = 0, warn = 1, error = 2 };
extern std::atomic<int> mode;  // of the process

void report();  // warns, or throws
// Called by an operator that is about to wait.
inline void before_wait() {
  if (C10_UNLIKELY(mode.load(std::memory_order_relaxed) != silent)) report();
}

}  // namespace npu::sync_debug
