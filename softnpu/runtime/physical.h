// The virtual-memory interface: addresses without memory, memory without addresses, and mappings of one onto the other.
// Growing segments of a caching allocator are built from it. See Note [Separate memory] in memory.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acl_types.h"

namespace softnpu {

void* reserve_address(size_t bytes, size_t alignment);  // on the current card
void release_address(void* address);                    // nothing may be mapped in it any more

aclrtDrvMemHandle allocate_physical(int card, size_t bytes);
void free_physical(aclrtDrvMemHandle handle);  // memory that is still mapped lives on until it is not

void map_physical(void* address, size_t bytes, size_t offset, aclrtDrvMemHandle handle);
void unmap_physical(void* address);

// Sharing with other processes (share.h).
uint64_t export_physical(aclrtDrvMemHandle handle, bool anyone);
aclrtDrvMemHandle import_physical(uint64_t share, int card);

void release_all_physical(int card);  // when the card is reset

}  // namespace softnpu
