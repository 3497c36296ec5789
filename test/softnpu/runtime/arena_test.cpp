#include "runtime/arena.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace {

struct Thing : softnpu::Life {
  std::vector<int> numbers;
};

}  // namespace

TEST(Arena, finds_living_objects_only) {
  softnpu::Arena<Thing> arena("things", 1000);
  EXPECT_EQ(arena.find(nullptr), nullptr);
  EXPECT_EQ(arena.find(&arena), nullptr);
  Thing* thing = arena.acquire();
  EXPECT_EQ(arena.find(thing), nullptr);
  thing->begin();
  EXPECT_EQ(arena.find(thing), thing);
  EXPECT_EQ(arena.find(reinterpret_cast<char*>(thing) + 1), nullptr);
  EXPECT_EQ(arena.find(thing + 100), nullptr);
  EXPECT_TRUE(thing->end());
  EXPECT_FALSE(thing->end());
  arena.release(thing);
  EXPECT_EQ(arena.find(thing), nullptr);
}

TEST(Arena, does_not_reuse_a_slot_at_once_but_in_the_end) {
  softnpu::Arena<Thing> arena("things", 1000);
  Thing* first = arena.acquire();
  arena.release(first);
  std::set<Thing*> seen;
  for (int i = 0; i < 32; ++i) {
    Thing* thing = arena.acquire();
    EXPECT_NE(thing, first);
    seen.insert(thing);
    arena.release(thing);
  }
  for (int i = 0; i < 100; ++i) {
    Thing* thing = arena.acquire();
    seen.insert(thing);
    arena.release(thing);
  }
  EXPECT_LE(seen.size(), 34u);
}

TEST(Arena, says_when_it_is_full) {
  softnpu::Arena<Thing> arena("things", 40);
  std::vector<Thing*> things;
  for (int i = 0; i < 40; ++i) things.push_back(arena.acquire());
  EXPECT_THROW(arena.acquire(), softnpu::Failure);
  arena.release(things[7]);
  EXPECT_EQ(arena.acquire(), things[7]);
}

TEST(Arena, is_shared_by_threads) {
  softnpu::Arena<Thing> arena("things", 100000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        Thing* thing = arena.acquire();
        ASSERT_FALSE(thing->alive());
        thing->begin();
        ASSERT_EQ(arena.find(thing), thing);
        ASSERT_EQ(arena.end(thing), thing);
        arena.release(thing);
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST(Arena, of_several_threads_one_ends_an_object) {
  softnpu::Arena<Thing> arena("things", 100000);
  for (int round = 0; round < 2000; ++round) {
    Thing* thing = arena.acquire();
    thing->begin();
    std::atomic<int> ready{0}, ended{0};
    const auto race = [&] {
      ++ready;
      while (ready < 2) softnpu::pause_cpu();
      if (arena.end(thing)) ++ended;
    };
    std::thread other(race);
    race();
    other.join();
    ASSERT_EQ(ended, 1);
    arena.release(thing);
  }
}
