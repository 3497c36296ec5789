// Tensors of a card between processes of one user, without a copy: the sender exports the segment that a storage lies
// in and keeps the storage until the receiver has let go of it; the receiver maps the segment, once for all its
// tensors. See Note [Received again].
#pragma once

#include <c10/core/Storage.h>

#include <cstdint>
#include <string>

namespace npu::shared_memory {

struct Handle {
  std::string key;  // of the segment
  int64_t segment_bytes = 0;
  int64_t offset = 0;  // of the storage in it
  std::string ledger;  // see shared_ledger.h
  int64_t cell = 0;
  int64_t message = 0;  // of the cell
};

// Whether a storage's memory can be exported: a plain segment of the caching allocator, in base format.
bool can_send(const c10::Storage& storage);
// Waits for the current stream, so that the receiver finds what was computed.
Handle send(const c10::Storage& storage);
// Throws for a key that is not (or no longer) exported, for a range that is not inside the segment, and for a message
// that another process has received.
c10::Storage receive(const Handle& handle, int64_t bytes, c10::DeviceIndex device);
// Tells the sender that its tensor will not be received.
void decline(const Handle& handle);
// Lets go of what receivers have let go of, or died with. Returns how many tensors they still hold.
int64_t collect();
// At exit: collects, and removes the list of what was sent. Returns how many tensors others still hold.
int64_t end_sending();

}  // namespace npu::shared_memory
