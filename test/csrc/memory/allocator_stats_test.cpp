// The counters behind torch.npu.memory_stats().
#include "memory/allocator_stats.h"

#include <gtest/gtest.h>

using namespace npu::caching_allocator;

namespace {

constexpr size_t kAll = 0, kSmall = 1, kLarge = 2;

void expect_stat(const c10::CachingAllocator::Stat& stat, int64_t current, int64_t peak, int64_t allocated,
                 int64_t freed) {
  EXPECT_EQ(stat.current, current);
  EXPECT_EQ(stat.peak, peak);
  EXPECT_EQ(stat.allocated, allocated);
  EXPECT_EQ(stat.freed, freed);
}

}  // namespace

TEST(AllocatorStats, count_blocks_bytes_and_requests_by_pool) {
  AllocatorStats stats;
  stats.allocate(true, 512, 100);
  stats.allocate(false, 4096, 4000);
  stats.free(true, 512, 100);
  const auto report = stats.report();
  expect_stat(report.allocation[kAll], 1, 2, 2, 1);
  expect_stat(report.allocated_bytes[kSmall], 0, 512, 512, 512);
  expect_stat(report.allocated_bytes[kLarge], 4096, 4096, 4096, 0);
  expect_stat(report.allocated_bytes[kAll], 4096, 4608, 4608, 512);
  expect_stat(report.requested_bytes[kAll], 4000, 4100, 4100, 100);
  expect_stat(report.active_bytes[kAll], 4096, 4608, 4608, 512);
  EXPECT_EQ(stats.allocated_bytes(), 4096u);
}

TEST(AllocatorStats, the_peak_of_all_is_not_the_sum_of_peaks) {
  AllocatorStats stats;
  stats.allocate(true, 512, 512);
  stats.free(true, 512, 512);
  stats.allocate(false, 1024, 1024);
  EXPECT_EQ(stats.report().allocated_bytes[kAll].peak, 1024);
}

TEST(AllocatorStats, a_pending_block_is_active_but_not_allocated) {
  AllocatorStats stats;
  stats.allocate(true, 512, 512);
  stats.free(true, 512, 512);
  stats.add_pending(true, 512);
  stats.allocate(true, 512, 512);
  auto report = stats.report();
  expect_stat(report.allocation[kAll], 1, 1, 2, 1);
  expect_stat(report.active[kAll], 2, 2, 2, 0);
  expect_stat(report.active_bytes[kSmall], 1024, 1024, 1024, 0);
  stats.remove_pending(true, 512);
  expect_stat(stats.report().active[kAll], 1, 2, 2, 1);
}

TEST(AllocatorStats, resetting_totals_keeps_what_is_in_use) {
  AllocatorStats stats;
  stats.allocate(true, 512, 512);
  stats.allocate(true, 512, 512);
  stats.free(true, 512, 512);
  stats.add_pending(true, 512);
  stats.rare().num_ooms = 3;
  stats.reset_accumulated();
  auto report = stats.report();
  expect_stat(report.allocation[kAll], 1, 2, 0, 0);
  expect_stat(report.active[kAll], 2, 2, 0, 0);
  EXPECT_EQ(report.num_ooms, 0);
  stats.remove_pending(true, 512);
  stats.free(true, 512, 512);
  report = stats.report();
  expect_stat(report.allocation[kSmall], 0, 2, 0, 1);
  expect_stat(report.active[kSmall], 0, 2, 0, 2);
}

TEST(AllocatorStats, resetting_peaks_starts_from_now) {
  AllocatorStats stats;
  stats.allocate(true, 512, 512);
  stats.allocate(false, 4096, 4096);
  stats.free(false, 4096, 4096);
  stats.add_segment(true, 2048, {0, 0});
  stats.add_segment(true, 2048, {0, 0});
  stats.remove_segment(true, 2048, {0, 0});
  stats.reset_peak();
  const auto report = stats.report();
  EXPECT_EQ(report.allocated_bytes[kAll].peak, 512);
  EXPECT_EQ(report.allocated_bytes[kLarge].peak, 0);
  EXPECT_EQ(report.active[kAll].peak, 1);
  EXPECT_EQ(report.reserved_bytes[kAll].peak, 2048);
  EXPECT_EQ(report.segment[kSmall].allocated, 2);
}

TEST(AllocatorStats, segments_of_private_pools_are_counted_by_owner_too) {
  AllocatorStats stats;
  stats.add_segment(true, 2048, {0, 7});
  stats.add_segment(true, 1024, {0, 0});
  const auto report = stats.report();
  EXPECT_EQ(report.reserved_bytes[kAll].current, 3072);
  ASSERT_EQ(report.reserved_bytes_by_private_pools.size(), 1u);
  EXPECT_EQ(report.reserved_bytes_by_private_pools.at({0, 7})[kAll].current, 2048);
  EXPECT_EQ(report.num_device_alloc, 2);
}

TEST(AllocatorStats, of_pools_that_are_gone_the_last_ones_are_kept) {
  AllocatorStats stats;
  const auto pools = [&stats] { return stats.report().reserved_bytes_by_private_pools; };
  constexpr uint64_t kMany = 3 * AllocatorStats::kPastPools;
  stats.add_segment(true, 512, {0, kMany});
  stats.retire({0, kMany});  // and is used again
  for (uint64_t id = 1; id < kMany; ++id) {
    stats.add_segment(true, 2048, {0, id});
    stats.remove_segment(true, 2048, {0, id});
    stats.retire({0, id});
  }
  EXPECT_EQ(pools().size(), AllocatorStats::kPastPools + 1);
  EXPECT_EQ(pools().count({0, 1}), 0u);
  EXPECT_EQ(pools().at({0, kMany - 1})[kAll].peak, 2048);
  EXPECT_EQ(pools().at({0, kMany})[kAll].current, 512);
}
