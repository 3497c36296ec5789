// The float status of a card: whether a kernel has overflowed since a client last cleared it.
//
// Note [Float status]
// ~~~~~~~~~~~~~~~~~~~
// Clients read and clear the status with operators of the interface before aclnn (entry/legacy.cpp). A kernel
// overflows when finite arguments give an infinity or NaN (kernels/engine/overflow.h). Looking for those costs a pass
// over the memory of every operator, so a card is watched only once a client has cleared its status, and a stream when
// aclrtSetStreamOverflowSwitch says so. Copies from the host and collectives are not watched.
#pragma once

#include <atomic>

#include "acl_types.h"

#pragma GCC visibility push(default)
namespace softnpu {

extern std::atomic<bool> g_overflow_watched;  // something was ever watched: what a launch looks at first
bool running_stream_is_watched() noexcept;
// For tasks: whether an overflow is to be reported.
inline bool overflow_watched() noexcept {
  return g_overflow_watched.load(std::memory_order_relaxed) && running_stream_is_watched();
}
void report_overflow() noexcept;  // for tasks, of their card

}  // namespace softnpu
#pragma GCC visibility pop

namespace softnpu {

class Task;

constexpr int kFloatStatusNumbers = 8;  // of four bytes each; the first one is the status, 0 without an overflow
enum class FloatStatus { make, read, clear };
// `numbers` is device memory of kFloatStatusNumbers of `dtype`, float or int32. May be NULL for clear.
Task* float_status_task(FloatStatus what, void* numbers, aclDataType dtype);

}  // namespace softnpu
