// Limits of the cores that a stream's operators may use: torch.npu.set_stream_limit. CANN plans an operator in phase
// one, on a thread that has been told whose limits count; so once a stream has limits, every phase one is told, and
// executors are not taken from the cache, whose keys know nothing of limits. A process without limits pays one load.
#pragma once

#include <atomic>

#include "runtime/stream.h"

namespace npu::stream_limits {

extern std::atomic<bool> g_in_use;
inline bool in_use() noexcept { return g_in_use.load(std::memory_order_relaxed); }

// The calling thread's next phase one is for `stream`.
void use(aclrtStream stream);

// Throw NotImplementedError for a provider that has no limits of streams.
uint32_t get(Stream stream, aclrtDevResLimitType type);
void set(Stream stream, aclrtDevResLimitType type, uint32_t cores);
void reset(Stream stream);

}  // namespace npu::stream_limits
