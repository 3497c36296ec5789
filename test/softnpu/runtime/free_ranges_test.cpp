#include "runtime/free_ranges.h"

#include <gtest/gtest.h>

#include <random>

using softnpu::FreeRanges;

TEST(FreeRanges, takes_the_lowest_place_that_fits) {
  FreeRanges ranges;
  ranges.put(100, 110);
  ranges.put(200, 300);
  EXPECT_EQ(ranges.take(20, 1), 200u);
  EXPECT_EQ(ranges.take(10, 1), 100u);
  EXPECT_EQ(ranges.take(81, 1), std::nullopt);
  EXPECT_EQ(ranges.take(80, 1), 220u);
}

TEST(FreeRanges, aligns) {
  FreeRanges ranges;
  ranges.put(100, 300);
  EXPECT_EQ(ranges.take(10, 64), 128u);
  EXPECT_EQ(ranges.take(28, 1), 100u);
  EXPECT_EQ(ranges.take(10, 64), 192u);
}

TEST(FreeRanges, merges_neighbours) {
  FreeRanges ranges;
  ranges.put(0x1000, 0x2000);
  ranges.put(0x3000, 0x4000);
  const auto merged = ranges.put(0x2000, 0x3000);
  EXPECT_EQ(merged.begin, 0x1000u);
  EXPECT_EQ(merged.end, 0x4000u);
  ranges.remove(0x2000, 0x3000);
  EXPECT_EQ(ranges.all().size(), 2u);
}

TEST(FreeRanges, ends_as_it_began_after_any_order_of_use) {
  FreeRanges ranges;
  ranges.put(4096, 4096 + (1 << 20));
  std::mt19937 random(1);
  std::vector<std::pair<uintptr_t, size_t>> taken;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 || taken.empty()) {
      const size_t bytes = 1 + random() % 5000;
      if (const auto place = ranges.take(bytes, 1u << random() % 8)) taken.emplace_back(*place, bytes);
    } else {
      const size_t index = random() % taken.size();
      ranges.put(taken[index].first, taken[index].first + taken[index].second);
      taken[index] = taken.back();
      taken.pop_back();
    }
  }
  for (const auto& [place, bytes] : taken) ranges.put(place, place + bytes);
  ASSERT_EQ(ranges.all().size(), 1u);
  EXPECT_EQ(ranges.all()[0].begin, 4096u);
  EXPECT_EQ(ranges.all()[0].end, 4096u + (1 << 20));
}
