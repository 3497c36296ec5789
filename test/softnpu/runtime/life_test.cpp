#include "runtime/life.h"

#include <gtest/gtest.h>

#include <thread>

using softnpu::Life;

TEST(Life, end_waits_for_whoever_holds_it) {
  Life life;
  life.begin();
  ASSERT_TRUE(life.hold());
  std::atomic<bool> ended{false};
  std::thread other([&] { ended = life.end(); });
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  EXPECT_FALSE(ended);
  EXPECT_TRUE(life.alive());
  life.let_go();
  other.join();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(life.alive());
}

TEST(Life, number_tells_one_life_from_the_next) {
  Life life;
  life.begin();
  const uint64_t first = life.number();
  ASSERT_TRUE(life.end());
  life.begin();
  EXPECT_FALSE(life.hold(first));
  EXPECT_TRUE(life.hold(life.number()));
  life.end_held();
  EXPECT_FALSE(life.hold());
}
