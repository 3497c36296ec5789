#include "memory/block_pool.h"

#include <bit>

#include "acl/library.h"
#include "memory/allocator_config.h"
#include "memory/units.h"

namespace npu::caching_allocator {

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
using namespace c10::CachingAllocator;

Block* split_off(Block* block, size_t size) {
  auto* rest = new Block(block->ptr + size, block->size - size, block->pool);
  rest->state = block->state;
  rest->prev = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->prev = rest;
  block->next = rest;
  block->size = size;
  return rest;
}

void absorb(Block* left, Block* right) {
  left->size += right->size;
  left->next = right->next;
  if (left->next != nullptr) left->next->prev = left;
  delete right;
}

// Kernels of the chips before Ascend950 may read so much beyond their last element: the official allocator leaves it
// behind every block. softnpu's do not, and memory is counted there as with CUDA.
constexpr size_t kBehind = 32;

size_t round_size(size_t bytes) {
  static const size_t behind = acl::provider() == acl::Provider::cann ? kBehind : 0;
  bytes += behind;
  if (C10_UNLIKELY(settings::rounds_to_power_of_two())) {
    const size_t divisions = Config::roundup_power2_divisions(bytes);
    if (divisions > 1 && bytes > kMinBlockSize * divisions) return round_up(bytes, std::bit_floor(bytes) / divisions);
  }
  return round_up(bytes, kMinBlockSize);
}

size_t segment_size(size_t size) {
  if (size <= kSmallSize) return kSmallBuffer;
  if (size < kMinLargeAlloc) return Config::large_segment_size();
  return round_up(size, kRoundLarge);
}

BlockPool::BlockPool(AllocatorStats& stats, Key key, DeviceHeap* heap) : stats_(stats), key_(key), heap_(heap) {
  if (key.small) bins_.resize(kSmallSize / kMinBlockSize + 1);
}

Block* BlockPool::find_best_fit(size_t size) {
  Block key(nullptr, size, this);
  const auto found = tree_.lower_bound(&key);
  if (found == tree_.end()) return nullptr;
  Block* block = *found;
  // Oversize blocks are never split: a small request does not get one, a large one only when little is wasted.
  const size_t max_split = Config::max_split_size();
  if (size < max_split && block->size >= max_split) return nullptr;
  if (size >= max_split && block->size >= size + Config::max_non_split_rounding_size()) return nullptr;
  return block;
}

Block* BlockPool::take_best_fit(size_t size) {
  ++searches_;
  Block* block = find_best_fit(size);
  if (block == nullptr) {
    consolidate();
    block = find_best_fit(size);
  }
  if (block == nullptr) return nullptr;
  erase(block);
  return cut(block, size);
}

bool BlockPool::worth_splitting(const Block& block, size_t size) const {
  if (key_.no_split) return false;
  const size_t rest = block.size - size;
  if (key_.small || settings::expandable_segments()) return rest >= kMinBlockSize;
  return size < Config::max_split_size() && rest > kSmallSize;
}

Block* BlockPool::cut(Block* block, size_t size) {
  block->state = Block::State::allocated;
  if (worth_splitting(*block, size)) insert(split_off(block, size));
  return block;
}

void BlockPool::merge_into_tree(Block* block) {
  if (Block* left = block->prev; left != nullptr && left->state == Block::State::free) {
    erase(left);
    absorb(left, block);
    block = left;
  }
  if (Block* right = block->next; right != nullptr && right->state == Block::State::free) {
    erase(right);
    absorb(block, right);
  }
  insert(block);
}

void BlockPool::consolidate() {
  for (Block*& bin : bins_) {
    while (Block* block = bin) {
      bin = block->next_in_bin;
      merge_into_tree(block);
    }
  }
}

void BlockPool::remove(Block* block) {
  erase(block);
  block->state = Block::State::moving;
}

void BlockPool::insert(Block* block) {
  block->state = Block::State::free;
  block->freed_at = searches_;
  tree_.insert(block);
  if (block->is_split()) stats_.add_split(key_.small, block->size);
}

void BlockPool::erase(Block* block) {
  tree_.erase(block);
  if (block->is_split()) stats_.remove_split(key_.small, block->size);
}

}  // namespace npu::caching_allocator
