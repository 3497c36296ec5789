// Collectives as tasks of a stream. See Note [How a collective runs] and Note [Collectives and threads] in control.h.
#pragma once

#include <memory>
#include <vector>

#include "acl_types.h"
#include "communicator.h"

namespace softnpu::comm {

// The arguments of a collective, as its C function has them. Buffers that this rank does not use are NULL.
struct Request {
  Kind kind = Kind::none;
  uint32_t type = 0, op = 0, root = 0;
  uint64_t count = 0;
  const void* send = nullptr;
  void* recv = nullptr;
  uint64_t send_elements = 0, recv_elements = 0;  // how far the buffers reach
  std::vector<uint64_t> tables[4];                // of the "v" forms, by Table
};

// Checks the arguments now, throws Failure for wrong ones; runs in the order of `stream`.
void submit_collective(std::shared_ptr<Communicator> communicator, Request request, aclrtStream stream);

// Fills a Buffer of the shared memory. Throws Failure unless it is memory of the communicator's card.
template <uint32_t N>
void describe_buffer(Buffer<N>* buffer, const void* address, const std::vector<Extent>& extents) {
  buffer->address = reinterpret_cast<uint64_t>(address);
  buffer->extent_count = static_cast<uint32_t>(extents.size());
  for (size_t i = 0; i < extents.size(); ++i) buffer->extents[i] = extents[i];
}
std::vector<Extent> checked_buffer(const Communicator& communicator, const void* address, uint64_t bytes, size_t size,
                                   uint32_t most, const char* name);

}  // namespace softnpu::comm
