// expandable_segments:True: a pool's memory is one range that grows and shrinks in pages (20 MiB for large blocks).
#include <thread>
#include <vector>

#include "acl/check.h"
#include "memory/allocator_config.h"
#include "memory/allocator_fixture.h"
#include "memory/expandable_range.h"

class ExpandableSegments : public CachingAllocator {
 protected:
  void SetUp() override {
    CachingAllocator::SetUp();
    if (IsSkipped()) return;
    if (!caching_allocator::ExpandableRange::supported()) GTEST_SKIP() << "the runtime cannot map memory";
    caching_allocator::settings::set("expandable_segments:True");
  }
  void TearDown() override {
    CachingAllocator::TearDown();
    caching_allocator::settings::set("expandable_segments:False");
  }
  static int64_t mebibytes(int64_t n) { return n * static_cast<int64_t>(kMiB); }
};
INSTANTIATE_TEST_SUITE_P(Level, ExpandableSegments, testing::Values(0, 1, 2));

TEST_P(ExpandableSegments, grow_in_place) {
  void* const base = allocate(30 * kMiB).get();
  EXPECT_EQ(reserved(), mebibytes(40));
  const auto larger = allocate(90 * kMiB);
  EXPECT_EQ(larger.get(), base);
  EXPECT_EQ(reserved(), mebibytes(100));
}

TEST_P(ExpandableSegments, small_blocks_have_a_range_of_their_own) {
  std::vector<c10::DataPtr> ptrs;
  for (int i = 0; i < 4097; ++i) ptrs.push_back(allocate(512));
  EXPECT_EQ(static_cast<char*>(ptrs.back().get()) - static_cast<char*>(ptrs.front().get()), 4096 * 512);
  EXPECT_EQ(reserved(), mebibytes(4));
  allocate(3 * kMiB).clear();
  EXPECT_EQ(reserved(), mebibytes(24));
}

TEST_P(ExpandableSegments, a_block_over_several_pages_holds_its_data) {
  const size_t bytes = 30 * kMiB;
  std::vector<char> there(bytes), back(bytes);
  for (size_t i = 0; i < bytes; ++i) there[i] = static_cast<char>(i * 7 + i / 4096);
  const auto ptr = allocate(bytes);
  DeviceGuard guard(0);
  NPU_CHECK(acl::api().aclrtMemcpy(ptr.get(), bytes, there.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  const auto copy = caching_allocator::get()->clone(ptr.get(), bytes);
  current_stream().synchronize();
  NPU_CHECK(acl::api().aclrtMemcpy(back.data(), bytes, copy.get(), bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_TRUE(back == there);
}

TEST_P(ExpandableSegments, return_the_pages_that_no_block_touches) {
  auto first = allocate(30 * kMiB), second = allocate(30 * kMiB);  // the middle page is shared
  void* const address = first.get();
  EXPECT_EQ(reserved(), mebibytes(60));
  first.clear();
  caching_allocator::empty_cache();
  EXPECT_EQ(reserved(), mebibytes(40));
  EXPECT_EQ(stats().segment[0].current, 0) << "ranges are not counted as segments";
  const auto again = allocate(20 * kMiB);  // into the hole
  EXPECT_EQ(again.get(), address);
  EXPECT_EQ(reserved(), mebibytes(60));
  second.clear();
}

TEST_P(ExpandableSegments, return_everything_in_the_end) {
  {
    const auto a = allocate(100), b = allocate(50 * kMiB);
  }
  caching_allocator::empty_cache();
  EXPECT_EQ(reserved(), 0);
  EXPECT_TRUE(heap(0).segments({0, 0}).empty());
  EXPECT_NE(allocate(50 * kMiB).get(), nullptr);
}

TEST_P(ExpandableSegments, use_cached_pages_of_another_pool_before_giving_up) {
  const auto total = static_cast<double>(total_on_card());
  caching_allocator::set_memory_fraction(100.0 * kMiB / total, 0);
  const auto other = stream_from_pool();
  {
    c10::DataPtr ptr;
    set_current_stream(other);
    ptr = allocate(70 * kMiB);
    set_current_stream(default_stream(0));
  }
  EXPECT_NE(allocate(90 * kMiB).get(), nullptr);
  EXPECT_EQ(reserved(), mebibytes(100));
  EXPECT_EQ(stats().num_alloc_retries, 1);
}

TEST_P(ExpandableSegments, leave_nothing_mapped_when_the_card_is_full) {
  const auto kept = allocate(30 * kMiB);
  EXPECT_NE(out_of_memory(total_on_card()), "");
  EXPECT_EQ(reserved(), mebibytes(40));
  EXPECT_NE(allocate(30 * kMiB).get(), nullptr);
}

TEST_P(ExpandableSegments, are_reported_in_pieces_that_have_memory) {
  auto first = allocate(40 * kMiB), second = allocate(20 * kMiB), third = allocate(40 * kMiB);
  second.clear();
  caching_allocator::empty_cache();
  const auto segments = heap(0).segments({0, 0});
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_TRUE(segments[0].is_expandable);
  EXPECT_EQ(segments[0].address, reinterpret_cast<size_t>(first.get()));
  EXPECT_EQ(segments[0].total_size, 40 * kMiB);
  EXPECT_EQ(segments[1].address, reinterpret_cast<size_t>(third.get()));
  EXPECT_EQ(segments[1].total_size, 40 * kMiB);
}

TEST_P(ExpandableSegments, threads_share_a_range) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      set_device(0);
      std::vector<c10::DataPtr> ptrs(4);
      unsigned random = t;
      for (int i = 0; i < 100; ++i) {
        random = random * 1664525 + 1013904223;
        ptrs[random % 4] = allocate(1 + (random >> 8) % (random % 3 == 0 ? 30 * kMiB : 50000));
        if (i % 20 == 0) caching_allocator::empty_cache();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(allocated(), 0);
  caching_allocator::empty_cache();
  EXPECT_EQ(reserved(), 0);
}
