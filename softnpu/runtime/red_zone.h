// SOFTNPU_STRICT: bytes behind an allocation that nobody owns. They are painted when it is made (memory.cpp), and
// looked at when the host has waited for a card's work and when the memory is freed: a kernel that wrote behind its
// tensor is found then, and the allocation is named.
#pragma once

#include <cstddef>

namespace softnpu {

constexpr size_t kRedZone = 64;  // at least

void paint_red_zone(char* begin, size_t bytes) noexcept;
// How many bytes from the first to the last that was written to; 0 when it is intact. It is painted again.
size_t red_zone_damage(char* begin, size_t bytes) noexcept;

}  // namespace softnpu
