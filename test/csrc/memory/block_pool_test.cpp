// Splitting, merging and finding blocks. No device: the segments are made-up addresses.
#include "memory/block_pool.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "memory/allocator_config.h"

using namespace npu::caching_allocator;

namespace {

constexpr size_t kMiB = 1 << 20;

class BlockPools : public testing::Test {
 protected:
  // A whole segment of `bytes` at a fresh address, as the heap adds one.
  Block* segment(BlockPool& pool, size_t bytes) {
    auto* block = new Block(next_, bytes, &pool);
    next_ += bytes + 64 * kMiB;
    segments_.push_back(block);  // a segment's first block stays
    return block;
  }
  void TearDown() override {
    for (Block* block : segments_) {
      while (block != nullptr) delete std::exchange(block, block->next);
    }
  }
  int64_t split_blocks() { return stats_.report().inactive_split[0].current; }
  int64_t split_bytes() { return stats_.report().inactive_split_bytes[0].current; }

  AllocatorStats stats_;
  BlockPool small_{stats_, {true, 0}};
  BlockPool large_{stats_, {false, 0}};

 private:
  std::vector<Block*> segments_;
  char* next_ = reinterpret_cast<char*>(uintptr_t{1} << 32);
};

}  // namespace

TEST(BlockSizes, are_rounded_to_512_bytes) {
  EXPECT_EQ(round_size(1), 512u);
  EXPECT_EQ(round_size(512), 512u);
  EXPECT_EQ(round_size(513), 1024u);
  EXPECT_EQ(round_size(3 * kMiB + 1), 3 * kMiB + 512);
}

TEST(BlockSizes, are_rounded_to_power_of_two_divisions_when_asked) {
  settings::set("roundup_power2_divisions:4");
  EXPECT_EQ(round_size(1), 512u);
  EXPECT_EQ(round_size(1200 * 1024), 1280 * 1024u);  // between 1 and 2 MiB in steps of 256 KiB
  EXPECT_EQ(round_size(kMiB), kMiB);
  settings::set("");
  EXPECT_EQ(round_size(1200 * 1024), 1200 * 1024u);
}

TEST(BlockSizes, choose_the_segment) {
  EXPECT_EQ(segment_size(512), 2 * kMiB);
  EXPECT_EQ(segment_size(kMiB), 2 * kMiB);
  EXPECT_EQ(segment_size(kMiB + 512), 20 * kMiB);
  EXPECT_EQ(segment_size(10 * kMiB), 10 * kMiB);
  EXPECT_EQ(segment_size(10 * kMiB + 512), 12 * kMiB);
  settings::set("large_segment_size_mb:40");
  EXPECT_EQ(segment_size(2 * kMiB), 40 * kMiB);
  settings::set("large_segment_size_mb:20");
}

TEST_F(BlockPools, a_cut_leaves_the_rest_free) {
  Block* block = small_.cut(segment(small_, 2 * kMiB), 512);
  EXPECT_EQ(block->size, 512u);
  EXPECT_EQ(split_blocks(), 1);
  EXPECT_EQ(split_bytes(), static_cast<int64_t>(2 * kMiB - 512));
  Block* next = small_.take_best_fit(1024);
  EXPECT_EQ(next, block->next);
  EXPECT_EQ(next->ptr, block->ptr + 512);
  EXPECT_EQ(next->size, 1024u);
}

TEST_F(BlockPools, a_freed_small_block_is_found_by_the_next_request_of_its_size_only) {
  Block* a = small_.cut(segment(small_, 2 * kMiB), 512);
  Block* b = small_.take_best_fit(1024);
  small_.give_back(a);
  small_.give_back(b);
  EXPECT_EQ(small_.take_binned(1536), nullptr);
  EXPECT_EQ(small_.take_binned(1024), b);
  EXPECT_EQ(small_.take_binned(1024), nullptr);
  EXPECT_EQ(small_.take_binned(512), a);
}

TEST_F(BlockPools, the_last_freed_block_of_a_size_comes_first) {
  Block* a = small_.cut(segment(small_, 2 * kMiB), 512);
  Block* b = small_.take_best_fit(512);
  small_.give_back(a);
  small_.give_back(b);
  EXPECT_EQ(small_.take_binned(512), b);
  EXPECT_EQ(small_.take_binned(512), a);
}

TEST_F(BlockPools, freed_neighbours_merge_before_another_segment_is_needed) {
  Block* first = small_.cut(segment(small_, 2 * kMiB), kMiB);
  Block* second = small_.take_best_fit(kMiB / 2);
  Block* third = small_.take_best_fit(kMiB / 2);
  char* const base = first->ptr;
  EXPECT_EQ(small_.take_best_fit(512), nullptr);
  small_.give_back(third);
  small_.give_back(first);
  small_.give_back(second);
  Block* whole = small_.take_best_fit(2 * kMiB);
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(whole->ptr, base);
  EXPECT_FALSE(whole->is_split());
  EXPECT_EQ(split_blocks(), 0);
}

TEST_F(BlockPools, merging_stops_at_a_block_in_use) {
  Block* a = small_.cut(segment(small_, 2 * kMiB), kMiB / 2);
  Block* used = small_.take_best_fit(kMiB / 2);
  Block* b = small_.take_best_fit(kMiB / 2);
  small_.give_back(a);
  small_.give_back(b);
  small_.consolidate();
  EXPECT_EQ(used->prev, a);
  EXPECT_EQ(a->size, kMiB / 2);
  EXPECT_EQ(used->next->size, kMiB);
  EXPECT_EQ(split_blocks(), 2);
}

TEST_F(BlockPools, large_blocks_merge_at_once_and_fit_best) {
  Block* a = large_.cut(segment(large_, 20 * kMiB), 4 * kMiB);
  Block* b = large_.take_best_fit(6 * kMiB);
  Block* c = large_.take_best_fit(10 * kMiB);
  large_.give_back(a);
  large_.give_back(c);
  EXPECT_EQ(large_.take_binned(4 * kMiB), nullptr);
  EXPECT_EQ(large_.take_best_fit(3 * kMiB), a) << "the smaller of two blocks that are large enough";
  large_.give_back(a);
  large_.give_back(b);
  EXPECT_EQ(a->size, 20 * kMiB);
  EXPECT_FALSE(a->is_split());
}

TEST_F(BlockPools, a_large_block_is_not_split_for_a_rest_of_one_mebibyte) {
  EXPECT_EQ(large_.cut(segment(large_, 20 * kMiB), 19 * kMiB)->size, 20 * kMiB);
  EXPECT_EQ(large_.cut(segment(large_, 20 * kMiB), 19 * kMiB - 512)->size, 19 * kMiB - 512);
}

TEST_F(BlockPools, oversize_blocks_are_kept_for_oversize_requests) {
  settings::set("max_split_size_mb:50");
  Block* big = segment(large_, 100 * kMiB);
  EXPECT_EQ(large_.cut(big, 60 * kMiB)->size, 100 * kMiB) << "not split";
  large_.give_back(big);
  EXPECT_EQ(large_.take_best_fit(40 * kMiB), nullptr) << "not for a small request";
  EXPECT_EQ(large_.take_best_fit(60 * kMiB), nullptr) << "too much would be wasted";
  EXPECT_EQ(large_.take_best_fit(90 * kMiB), big);
  settings::set("");
}

TEST_F(BlockPools, without_splitting_a_segment_serves_one_request) {
  BlockPool whole(stats_, {true, 0, {0, 1}, true});
  Block* block = whole.cut(segment(whole, 2 * kMiB), 512);
  EXPECT_EQ(block->size, 2 * kMiB);
  EXPECT_EQ(whole.take_best_fit(512), nullptr);
  whole.give_back(block);
  EXPECT_EQ(whole.take_best_fit(512), block);
}

TEST_F(BlockPools, age_counts_searches_since_the_block_was_freed) {
  Block* old = segment(large_, 20 * kMiB);
  large_.give_back(old);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(large_.take_best_fit(100 * kMiB), nullptr);
  Block* young = segment(large_, 20 * kMiB);
  large_.give_back(young);
  EXPECT_EQ(large_.age(*old), 3);
  EXPECT_EQ(large_.age(*young), 0);
}
