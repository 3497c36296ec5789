// Bringing memory of the card into its cache before an operator needs it.
#pragma once

#include <cstddef>

namespace npu {

// `bytes` from `address` on, behind the current stream's work. A hint: where CANN cannot take it, nothing happens.
void prefetch(const void* address, size_t bytes);

}  // namespace npu
