#include "values.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "library.h"

namespace fuzz {

uint64_t Values::foreign(Kind kind) {
  switch (random.below(5)) {
    case 0:
      return 0;
    case 1:
      return handles_.get(static_cast<Kind>(random.below(static_cast<int>(Kind::count))), random);
    case 2:
      return reinterpret_cast<uint64_t>(block_) + 64 * random.below(kCard / 64);
    case 3: {
      constexpr uint64_t kNumbers[] = {1, 2, 8, 16, 0x1000, ~0ull, ~0ull - 7, 1ull << 47, 1ull << 63, 0x7f0000000000};
      return random.one_of(kNumbers);
    }
    default:
      return handles_.get(kind, random) + 8 * (1 + random.below(8));
  }
}

uint64_t Values::handle(Kind kind) { return random.one_in(6) ? foreign(kind) : handles_.get(kind, random); }

int64_t Values::integer() {
  constexpr int64_t kRare[] = {-2,        64,        -64,       1000,      INT32_MAX,     INT32_MIN,
                               INT64_MAX, INT64_MIN, 1ll << 40, 1ll << 62, INT64_MAX - 1, -(1ll << 33)};
  if (random.one_in(8)) return random.one_of(kRare);
  return static_cast<int64_t>(random.below(6)) - 1;
}

uint64_t Values::bytes() {
  constexpr uint64_t kRare[] = {0, ~0ull, ~0ull - 4095, 1ull << 63, 1ull << 62, 1ull << 47, (1ull << 40) + 1};
  return random.one_in(5) ? random.one_of(kRare) : 1 + random.below(kScratch);
}

double Values::real() {
  constexpr double kRare[] = {-1, 1e-30, 1e30, -1e300, INFINITY, -INFINITY, NAN, 1e-320};
  constexpr double kUsual[] = {0, 0.5, 1, 1, 2, 0.1};
  return random.one_in(6) ? random.one_of(kRare) : random.one_of(kUsual);
}

char* Values::slab() { return slabs_[slab_++ % kSlabs].data(); }

void* Values::zeros() { return memset(slab(), 0, kScratch); }

void* Values::numbers() {
  auto* numbers = reinterpret_cast<int64_t*>(slab());
  for (size_t i = 0; i < 64; i++) numbers[i] = integer();
  return numbers;
}

void Values::renew() {
  ACL(aclrtSetDevice)(0);
  void* block = nullptr;
  if (ACL(aclrtMalloc)(&block, kCard, ACL_MEM_MALLOC_HUGE_FIRST) == 0) block_ = block;
}

}  // namespace fuzz
