// How the numbers of a dump are written. Types that numpy lacks are widened, which is exact: bfloat16 and float8 to
// float32, complex32 to complex64. What has no whole bytes, or no C++ type here, stays the bytes of its memory (uint8).
#pragma once

#include <cstddef>
#include <cstdint>

#include "acl_types.h"

namespace npu::dump {

struct Statistics {
  uint64_t finite = 0, nan = 0, infinite = 0;
  double minimum = 0, maximum = 0, mean = 0, norm = 0;  // of the finite ones; of absolute values for complex numbers
};

struct ElementType {
  const char* name;                                         // torch's
  const char* numpy;                                        // of what is written, as .npy files name it
  size_t bytes;                                             // on the card; 0: only the memory as a whole has a size
  size_t written;                                           // in the file
  void (*widen)(const void* from, size_t count, void* to);  // null: written as it is
  Statistics (*measure)(const void* written, size_t count);
};

const ElementType& element_type(aclDataType type);

}  // namespace npu::dump
