// The memory of another rank's card, as this process sees it, and whether that rank's process lives.
//
// Note [Peers]
// A process gives each peer two descriptors when they meet: the memfd behind its card's memory, and the reading end of
// a pipe, its life line. The memfd is mapped whole (it is sparse, and costs addresses only), so a place in a peer's
// memory is one addition away from its file offset. Nobody ever writes into the pipe: when the process ends, however it
// ends, the kernel closes the writing end and every peer sees the hang-up at once. Both are kept per process and card,
// not per communicator, and go with the last communicator that needs them. Nothing here has a name that could be left
// behind.
#pragma once

#include <memory>

#include "socket.h"

namespace softnpu::comm {

class Peer {
 public:
  // The peer behind two descriptors that it sent. Throws Failure(207001) when the memory cannot be mapped.
  static std::shared_ptr<Peer> open(Descriptor memory, Descriptor life_line);
  ~Peer();
  Peer(const Peer&) = delete;

  // A card of this very process: its ranks are threads, and kernel addresses do for them.
  bool is_here() const { return base_ == nullptr; }
  char* at(uint64_t file_offset) const { return base_ + file_offset; }
  int life_line() const { return life_line_.get(); }  // hangs up when the process ends; -1 for this process

 private:
  Peer() = default;
  char* base_ = nullptr;
  size_t bytes_ = 0;
  Descriptor life_line_;
};

// The reading end of this process's own life line, for its peers.
int own_life_line();

}  // namespace softnpu::comm
