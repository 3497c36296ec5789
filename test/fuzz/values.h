// Where the arguments of a fuzzed call come from: a random number generator, handles seen so far by kind (alive or
// not), and values that no handle ever has. One Values per thread; the handles are shared by all threads of the
// process.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "acl_types.h"

namespace fuzz {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) { state_ = next(); }  // neighbouring seeds have nothing in common
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
  uint64_t below(uint64_t n) { return next() % n; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  template <class T, size_t N>
  T one_of(const T (&choices)[N]) {
    return choices[below(N)];
  }

 private:
  uint64_t state_;
};

enum class Kind {
  stream,
  event,
  context,
  memory,
  host,
  range,
  physical,
  comm,
  executor,
  tensor,
  scalar,
  ints,
  bools,
  tensors,
  scalars,
  desc,
  buffer,
  attributes,
  other,
  count
};

// The last handles of each kind. They stay after their end: a stale handle is as good a value as any.
class Handles {
 public:
  void put(Kind kind, uint64_t handle) {
    Ring& ring = rings_[static_cast<int>(kind)];
    ring.values[ring.next.fetch_add(1) % kSize].store(handle);
  }
  uint64_t get(Kind kind, Random& random) const {
    const Ring& ring = rings_[static_cast<int>(kind)];
    const uint64_t used = std::min<uint64_t>(ring.next.load(), kSize);
    return used ? ring.values[random.below(used)].load() : 0;
  }

 private:
  static constexpr size_t kSize = 24;
  struct Ring {
    std::array<std::atomic<uint64_t>, kSize> values{};
    std::atomic<uint64_t> next{0};
  };
  std::array<Ring, static_cast<int>(Kind::count)> rings_;
};

constexpr size_t kScratch = 1 << 16;  // bytes of host memory behind every pointer to a caller's variable or array
constexpr size_t kCard = 4 << 20;     // bytes of card memory that tensors and buffers lie in

class Values {
 public:
  Values(uint64_t seed, Handles& handles)
      : random(seed), handles_(handles), slabs_(kSlabs, std::vector<char>(kScratch)) {}

  uint64_t handle(Kind kind);   // mostly one that was seen; else NULL, of another kind, a number, an address
  uint64_t foreign(Kind kind);  // one of the latter
  int64_t integer();
  uint64_t bytes();  // of an allocation: usual, zero, or more than there is
  double real();
  void* zeros();    // a caller's variable or structure
  void* numbers();  // an array of small numbers
  void* block() const { return block_; }
  void* host_block() { return host_block_.data(); }  // kScratch bytes that tasks may write at any time
  void new_call() { slab_ = 0; }
  // Makes the thread's card memory, and again after a reset of the card.
  void renew();

  Random random;
  Handles& pool() { return handles_; }

 private:
  static constexpr size_t kSlabs = 16;
  char* slab();
  Handles& handles_;
  std::vector<std::vector<char>> slabs_;
  std::vector<char> host_block_ = std::vector<char>(kScratch);
  size_t slab_ = 0;
  void* block_ = nullptr;
};

}  // namespace fuzz
