// Copies and fills: argument checks, the tasks, and the byte mover.
#pragma once

#include <cstddef>

#include "acl_types.h"

namespace softnpu {

struct CopyRequest {
  void* dst;
  size_t dst_max;
  const void* src;
  size_t bytes;
  aclrtMemcpyKind kind;
};

void copy(const CopyRequest& request);  // on the calling thread, now
void copy_async(const CopyRequest& request, aclrtStream stream);
void fill(void* dst, size_t max, int value, size_t bytes);
void fill_async(void* dst, size_t max, int value, size_t bytes, aclrtStream stream);

// Waits on and writes of a 64-bit number in device memory, in stream order.
void value_write(void* address, uint64_t value, aclrtStream stream);
void value_wait(void* address, uint64_t value, uint32_t condition, aclrtStream stream);

// memmove by up to `threads` threads. Both addresses are dereferenceable.
void move_bytes(void* dst, const void* src, size_t bytes, int threads);

// Who knows how many threads the calling one may compute with: libopapi.so, torch's number. Without it, the configured.
#pragma GCC visibility push(default)
void set_thread_count(int (*of_this_thread)());
#pragma GCC visibility pop

}  // namespace softnpu
