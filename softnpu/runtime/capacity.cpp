#include "capacity.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "acl_types.h"
#include "config.h"
#include "error.h"
#include "host_memory_limit.h"
#include "planned_faults.h"
#include "records.h"
#include "soc.h"

namespace softnpu {

namespace {

constexpr size_t MB = size_t{1} << 20;

// Kept free of card memory: the reserve once and for all (programs need memory too), the margin at any moment.
size_t reserve_of(size_t limit) { return std::min(std::max(limit / 8, 256 * MB), std::min(limit / 2, 4096 * MB)); }
size_t margin_of(size_t limit) { return std::min(std::max(limit / 32, 64 * MB), 1024 * MB); }

struct Pool {
  size_t bytes;  // of all cards together
  size_t card;   // of one card
  size_t margin;
};

const Pool& pool() {
  static const Pool p = [] {
    const size_t limit = read_host_memory().limit;
    const size_t wanted = config().memory ? config().memory : config().soc ? config().soc->memory : 0;
    const size_t bytes = limit - reserve_of(limit);
    return Pool{bytes, std::min(wanted, bytes), margin_of(limit)};
  }();
  return p;
}

std::mutex& own_mutex() {
  static std::mutex* const m = new std::mutex;
  return *m;
}

struct Sums {
  size_t card = 0, all = 0, here = 0, available = 0;
};

// Both locks are held.
Sums sum_records(int card) {
  Record sum = records().own();
  Sums s;
  s.here = sum.used[card];
  records().add_others(&sum);
  s.card = sum.used[card];
  for (uint64_t used : sum.used) s.all += used;
  const size_t available = read_host_memory().available;
  s.available = available - std::min<size_t>(available, sum.pending + pool().margin);
  return s;
}

size_t free_of(const Sums& s) {
  const Pool& p = pool();
  return std::min(p.card - std::min(p.card, s.card), p.bytes - std::min(p.bytes, s.all));
}

}  // namespace

// A child forked before the first card was opened must not use its parent's record.
Records& records() {
  static std::atomic<Records*> current{nullptr};
  static std::mutex* const mutex = new std::mutex;
  Records* r = current.load(std::memory_order_acquire);
  if (r && r->process() == getpid()) return *r;
  std::lock_guard<std::mutex> lock(*mutex);
  r = current.load(std::memory_order_acquire);
  if (!r || r->process() != getpid()) current.store(r = new Records(config().record_folder), std::memory_order_release);
  return *r;
}

size_t card_total() { return pool().card; }

CardMemory card_memory(int card) {
  std::lock_guard<std::mutex> threads(own_mutex());
  Records::Lock processes(records());
  const Sums s = sum_records(card);
  return {pool().card, free_of(s), s.card, s.here};
}

void charge(int card, size_t bytes) {
  if (!config().faults.empty()) planned::allocates(card, bytes);
  std::lock_guard<std::mutex> threads(own_mutex());
  Records::Lock processes(records());
  const Sums s = sum_records(card);
  if (bytes > std::min(free_of(s), s.available)) {
    fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
         "card %d is out of memory: %.2f MiB wanted, %.2f MiB free of %.2f MiB; this process uses %.2f MiB of it, all "
         "processes together %.2f MiB; the host has %.2f MiB to give to cards right now",
         card, bytes / double(MB), free_of(s) / double(MB), pool().card / double(MB), s.here / double(MB),
         s.card / double(MB), s.available / double(MB));
  }
  records().own().used[card] += bytes;
  records().own().pending += bytes;
}

void settle(size_t bytes) noexcept {
  std::lock_guard<std::mutex> threads(own_mutex());
  records().own().pending -= bytes;
}

void discharge(int card, size_t bytes) noexcept {
  std::lock_guard<std::mutex> threads(own_mutex());
  records().own().used[card] -= bytes;
}

}  // namespace softnpu
