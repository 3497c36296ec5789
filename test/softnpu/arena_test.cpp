#include "runtime/arena.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace {

struct Thing {
  std::atomic<bool> living{false};
  std::vector<int> numbers;
  bool alive() const noexcept { return living; }
};

}  // namespace

TEST(Arena, finds_living_objects_only) {
  softnpu::Arena<Thing> arena("things", 1000);
  EXPECT_EQ(arena.find(nullptr), nullptr);
  EXPECT_EQ(arena.find(&arena), nullptr);
  Thing* thing = arena.acquire();
  EXPECT_EQ(arena.find(thing), nullptr);
  thing->living = true;
  EXPECT_EQ(arena.find(thing), thing);
  EXPECT_EQ(arena.find(reinterpret_cast<char*>(thing) + 1), nullptr);
  EXPECT_EQ(arena.find(thing + 100), nullptr);
  thing->living = false;
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
        ASSERT_FALSE(thing->living.exchange(true));
        ASSERT_EQ(arena.find(thing), thing);
        thing->living = false;
        arena.release(thing);
      }
    });
  for (auto& thread : threads) thread.join();
}
