// What a collective does, cut into blocks that any rank can execute. See Note [How a collective runs] in control.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "control.h"
#include "peer.h"
#include "stream_copy.h"

namespace softnpu::comm {

constexpr uint64_t kBlockBytes = 256 << 10;
constexpr uint64_t kStreamingBytes = 8 << 20;  // from here on results do not stay in a cache until they are used

// The posts of all ranks for one collective, checked against each other, and the work that follows from them.
class Schedule {
 public:
  // All ranks have posted. Throws Failure(107000) that names two ranks and what they called when posts do not agree.
  Schedule(Control& control, uint64_t number, const std::vector<std::shared_ptr<Peer>>& peers);

  uint64_t blocks() const { return blocks_; }
  void execute(uint64_t block) const;

 private:
  // `elements` are read from `from` (kAll: from every rank, and reduced) and written to `to` (kAll: to every rank).
  struct Piece {
    uint32_t from, to;
    uint64_t elements;
    uint64_t first_block;
  };
  static constexpr uint32_t kAll = ~0u;

  void check() const;
  void add(uint32_t from, uint32_t to, uint64_t elements);
  void cut();
  uint64_t read_at(const Piece& piece, uint32_t rank) const;   // in elements, in the rank's send buffer
  uint64_t write_at(const Piece& piece, uint32_t rank) const;  // in the rank's recv buffer
  uint64_t number_in(uint32_t rank, Table table, uint32_t index) const;
  uint32_t root() const { return posts_[0]->root; }
  void run(const Piece& piece, uint64_t begin, uint64_t end) const;

  Control& control_;
  const std::vector<std::shared_ptr<Peer>>& peers_;
  const uint32_t ranks_;
  std::vector<Post*> posts_;
  std::vector<Piece> pieces_;
  size_t size_ = 0;  // of an element
  Store store_ = Store::cached;
  uint64_t block_elements_ = 0;
  uint64_t blocks_ = 0;
};

// "all_reduce(float32, 10 elements, sum)", for messages.
std::string describe(const Post& post);

}  // namespace softnpu::comm
