// Pinned host memory: what aclrtMallocHost gave and what aclrtHostRegister announced. On a software device pinning
// means only this: an asynchronous copy may still be reading or writing the memory after the call returned.
#pragma once

#include <cstddef>

namespace softnpu {

void* allocate_host(size_t bytes);
void free_host(void* address);  // throws Failure(107000) for an address that allocate_host() did not give
void register_host(void* address, size_t bytes);
void unregister_host(void* address);

// Whether [address, address + bytes) is pinned as a whole.
bool is_pinned(const void* address, size_t bytes);
// Whether it is memory of allocate_host().
bool is_own(const void* address, size_t bytes);

}  // namespace softnpu
