// A rank's buffer as this process can touch it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "control.h"
#include "peer.h"
#include "runtime/address.h"

namespace softnpu::comm {

// The byte at `offset` of the buffer; *run becomes how many of the following ones are contiguous, at most what it was.
template <uint32_t N>
char* locate(const Buffer<N>& buffer, const Peer& peer, uint64_t offset, uint64_t* run) {
  if (peer.is_here()) return kernel_address(reinterpret_cast<const void*>(buffer.address)) + offset;
  uint32_t i = 0;
  while (i + 1 < buffer.extent_count && offset >= buffer.extents[i].bytes) offset -= buffer.extents[i++].bytes;
  *run = std::min<uint64_t>(*run, buffer.extents[i].bytes - offset);
  return peer.at(buffer.extents[i].offset + offset);
}

}  // namespace softnpu::comm
