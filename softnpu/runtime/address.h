// Device addresses and the kernels' view of the same memory. See Note [Separate memory] in memory.h.
#pragma once

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
namespace softnpu {

// One reservation covers all cards; the kernels' mapping lies at a constant distance from it.
struct Window {
  uintptr_t base = 0;     // first device address
  uintptr_t size = 0;     // bytes over all cards
  intptr_t distance = 0;  // kernel address - device address
};
extern Window g_window;  // set once, when the first card is opened

inline bool is_device_address(const void* p) noexcept {
  return reinterpret_cast<uintptr_t>(p) - g_window.base < g_window.size;
}

// Where kernels read and write the byte at device address `p`. No check: callers validated the range.
inline char* kernel_address(const void* p) noexcept {
  return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(p) + g_window.distance);
}

inline const void* device_address(const void* kernel_view) noexcept {
  return reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(kernel_view) - g_window.distance);
}

int card_of(const void* device_address) noexcept;  // -1 for a foreign address

// Throws Failure(107000) unless [p, p + bytes) lies inside one live allocation (of `card`, if it is not -1).
void check_allocated(const void* p, size_t bytes, int card, const char* what);

}  // namespace softnpu
#pragma GCC visibility pop
