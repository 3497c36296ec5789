// The free memory of one stream and size class of a card: bins, best fit, split, merge. No driver calls and no lock:
// the device heap that owns the pool holds its own.
//
// Note [Block pools]
// ~~~~~~~~~~~~~~~~~~
// The driver gives memory in segments. A segment is cut into blocks, a list in address order; merging two free
// neighbours keeps the lower one, so a segment's first block never changes identity.
//   Each stream has two pools: small (blocks up to 1 MiB, cut from segments of 2 MiB) and large. A freed block is
// reused on the stream it was allocated for only: the stream's order makes that safe while kernels still run. Use on
// other streams is declared by record_stream and waited for by events (pending_frees.h).
//   A small block that is freed goes unmerged into the bin of exactly its size and is found there again by the next
// request of that size: two pointer writes instead of a search tree. Everything else is in a tree ordered by size (best
// fit). Bins are emptied into the tree, merging neighbours, before the pool asks for another segment, gives memory back
// or is looked at (statistics, snapshot): a pool never grows while its free blocks would do, merged, and nobody sees
// blocks that should be one.
#pragma once

#include <c10/core/AllocatorConfig.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <memory>
#include <set>
#include <vector>

#include "memory/allocator_stats.h"

namespace npu::caching_allocator {

class BlockPool;
class DeviceHeap;

struct Block {
  enum class State : uint8_t {
    allocated,  // the user's, or about to be
    lost,       // the user's, with contents that are not to be trusted: lost_data.h
    pending,    // freed, other streams still work on it
    binned,     // free, in its pool's bin
    free,       // free, in its pool's tree
    moving,     // between its pool and the driver, in the hands of one thread
    unmapped,   // address space of an expandable segment without memory
  };

  Block(char* ptr, size_t size, BlockPool* pool) : ptr(ptr), size(size), pool(pool) {}
  bool is_split() const { return prev != nullptr || next != nullptr; }
  bool is_used() const { return state == State::allocated || state == State::lost; }
  bool is_active() const { return is_used() || state == State::pending; }

  char* ptr;
  size_t size;
  BlockPool* pool;
  size_t requested = 0;   // what the user asked for
  Block* prev = nullptr;  // neighbours in the segment
  Block* next = nullptr;
  Block* next_in_bin = nullptr;
  State state = State::allocated;
  uint32_t events = 0;               // still to complete; kept by PendingFrees
  uint64_t freed_at = 0;             // the pool's search count then
  std::vector<c10::Stream> used_by;  // streams of record_stream
  std::shared_ptr<c10::GatheredContext> context;
};

// Neighbours in a segment: split_off makes a block of what lies behind `size` and returns it, in the same state; absorb
// makes `right` a part of `left`. Neither knows about pools.
Block* split_off(Block* block, size_t size);
void absorb(Block* left, Block* right);

// The size of the block that serves a request of `bytes`.
size_t round_size(size_t bytes);
// The size of the segment asked of the driver when no block of `size` is free.
size_t segment_size(size_t size);

class BlockPool {
 public:
  struct Key {
    bool small;
    c10::StreamId stream;
    c10::MempoolId_t owner = {0, 0};
    bool no_split = false;
  };
  BlockPool(AllocatorStats& stats, Key key, DeviceHeap* heap = nullptr);

  // A block of exactly `size` from its bin, or nullptr.
  Block* take_binned(size_t size) noexcept {
    const size_t bin = size / c10::CachingAllocator::kMinBlockSize;
    if (C10_UNLIKELY(bin >= bins_.size())) return nullptr;
    Block* block = bins_[bin];
    if (C10_UNLIKELY(block == nullptr)) return nullptr;
    bins_[bin] = block->next_in_bin;
    block->state = Block::State::allocated;
    return block;
  }
  // Makes a block reusable.
  void give_back(Block* block) {
    const size_t bin = block->size / c10::CachingAllocator::kMinBlockSize;
    if (C10_UNLIKELY(bin >= bins_.size())) return merge_into_tree(block);
    block->state = Block::State::binned;
    block->next_in_bin = bins_[bin];
    bins_[bin] = block;
  }

  // The smallest free block that holds `size`, cut to it; nullptr if there is none, even after merging.
  Block* take_best_fit(size_t size);
  // Cuts an allocated block to `size` where that is worth while; the rest becomes free.
  Block* cut(Block* block, size_t size);
  // Empties the bins into the tree, merging neighbours.
  void consolidate();

  // Takes a free block out of the pool, for the driver; puts one into it.
  void remove(Block* block);
  void insert(Block* block);

  // How often the pool was searched since the block was freed.
  int64_t age(const Block& block) const { return static_cast<int64_t>(searches_ - block.freed_at); }
  const Key& key() const { return key_; }
  bool small() const { return key_.small; }
  DeviceHeap* heap() const { return heap_; }

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->ptr < b->ptr;
    }
  };
  Block* find_best_fit(size_t size);
  bool worth_splitting(const Block& block, size_t size) const;
  void merge_into_tree(Block* block);
  void erase(Block* block);

  AllocatorStats& stats_;
  const Key key_;
  DeviceHeap* const heap_;
  std::vector<Block*> bins_;  // index = size / 512; empty for large pools
  std::set<Block*, BySize> tree_;
  uint64_t searches_ = 0;
};

}  // namespace npu::caching_allocator
