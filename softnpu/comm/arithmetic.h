// Arithmetic on counts that callers give: a product or sum that does not fit must not look like a small one.
#pragma once

#include <cstdint>

#include "acl_types.h"
#include "runtime/error.h"

namespace softnpu::comm {

inline uint64_t product(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result))
    fail(ACL_ERROR_RT_PARAM_INVALID, "%llu times %llu is more than any buffer holds", (unsigned long long)a,
         (unsigned long long)b);
  return result;
}

inline uint64_t sum(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  if (__builtin_add_overflow(a, b, &result))
    fail(ACL_ERROR_RT_PARAM_INVALID, "%llu elements at %llu are more than any buffer holds", (unsigned long long)b,
         (unsigned long long)a);
  return result;
}

}  // namespace softnpu::comm
