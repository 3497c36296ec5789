#include "hostility.h"

#include <time.h>

#include <atomic>

namespace softnpu {

namespace {

uint64_t mix(uint64_t x) noexcept {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// Threads are numbered by who asks first.
uint64_t draw() noexcept {
  static std::atomic<uint64_t> threads{0};
  static thread_local uint64_t t_state = mix(uint64_t{config().hostile} << 32 | threads.fetch_add(1));
  return mix(t_state += 0x9e3779b97f4a7c15u);
}

}  // namespace

uint32_t by_chance(uint32_t bound) noexcept {
  return hostile() ? static_cast<uint32_t>((draw() >> 32) * bound >> 32) : 0;
}

bool out_of_favour(const char* name) noexcept {
  static thread_local uint64_t t_questions = 0;
  uint64_t hash = t_questions++ / 64 + config().hostile;
  for (; *name; ++name) hash = mix(hash ^ static_cast<unsigned char>(*name));
  return hash % 4 == 0;
}

void hesitate() noexcept {
  const uint32_t chance = by_chance(1024);
  if (!hostile() || chance >= 64) return;
  const timespec nap{0, chance == 0 ? 3'000'000 : static_cast<long>(chance) * 2'000};
  nanosleep(&nap, nullptr);
}

}  // namespace softnpu
