// Host memory that kernels reach at a device address, as aclrtHostRegister(ACL_HOST_REGISTER_MAPPED) announces it. Its
// pages become those of a file, which is mapped where the host has it and in the kernels' view of a card; they count
// as memory of no card.
#pragma once

#include <cstddef>

namespace softnpu {

// Whether [address, address + bytes) are whole pages of aclrtMallocHost; only those can be mapped.
bool is_mappable(const void* address, size_t bytes);
// The device address of these pages on `card`; they keep what is in them.
void* map_host(void* address, size_t bytes, int card);
// Ends the mapping that begins at host address `address`: waits for the card, and gives the host memory of its own with
// the same bytes. False if there is none.
bool unmap_host(void* address);
// Ends those that begin in [address, address + bytes), which is about to be freed.
void unmap_host_within(void* address, size_t bytes);

}  // namespace softnpu
