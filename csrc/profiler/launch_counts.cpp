// See Note [Counted launches]. Counting is done by the threads that launch, questions are answered on the inspection's.
#include "profiler/launch_counts.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "acl/json.h"
#include "runtime/capture.h"
#include "runtime/event.h"
#include "runtime/inspection.h"

namespace npu::launch_counts {

namespace {

// ---- the counters ---------------------------------------------------------------------------------------------------

// A name has one address for each place that calls it, some thousands; what finds no room is put together.
constexpr size_t kPlaces = 8192;
std::array<Count, kPlaces> g_counts;
Count g_rest;

Count& count_of(const char* name, Kind kind) {
  size_t place = reinterpret_cast<uintptr_t>(name) * 0x9e3779b97f4a7c15ull >> 51;
  for (size_t tries = 0; tries < 64; ++tries, place = (place + 1) % kPlaces) {
    Count& count = g_counts[place];
    const char* known = count.name.load(std::memory_order_acquire);
    if (C10_LIKELY(known == name)) return count;
    if (known == nullptr && count.name.compare_exchange_strong(known, name)) {
      count.kind.store(kind, std::memory_order_relaxed);
      return count;
    }
    if (known == name) return count;  // another thread was faster
  }
  return g_rest;
}

// ---- the measurements -----------------------------------------------------------------------------------------------

class Measurement {
 public:
  // False when the last one here is still under way, or none can be made.
  bool begin(Count& count, Stream stream) noexcept {
    collect();  // one that threads which came at once have passed over
    if (!take(State::idle)) return false;
    try {
      if (begin_.was_recorded() && begin_.device_index() != stream.device_index())
        begin_ = Event(true), end_ = Event(true);
      begin_.record(stream);
    } catch (const std::exception&) {
      drop();
      return false;
    }
    count_ = &count;
    stream_ = stream;
    return true;
  }

  // Takes the result, if there is one.
  void collect() noexcept {
    if (!take(State::pending)) return;
    try {
      const captures::Relaxed relaxed;
      if (!end_.query()) return state_.store(State::pending, std::memory_order_release);
      count_->nanoseconds += static_cast<uint64_t>(std::max(0.0, 1e6 * begin_.elapsed_time(end_)));
      count_->measured++;
    } catch (const std::exception&) {  // it failed: the program hears of it where it waits
      return drop();
    }
    state_.store(State::idle, std::memory_order_release);
  }
  bool is_idle() const { return state_.load(std::memory_order_relaxed) == State::idle; }

  void end(bool refused) noexcept {
    if (refused || watchers::has(watchers::capture)) return drop();
    try {
      end_.record(*stream_);
    } catch (const std::exception&) {
      return drop();
    }
    state_.store(State::pending, std::memory_order_release);
  }

 private:
  enum class State : uint8_t { idle, busy, pending };

  bool take(State expected) { return state_.compare_exchange_strong(expected, State::busy, std::memory_order_acquire); }
  void drop() noexcept {
    begin_ = Event(true);
    end_ = Event(true);
    state_.store(State::idle, std::memory_order_release);
  }

  std::atomic<State> state_{State::idle};
  Event begin_{true}, end_{true};
  Count* count_ = nullptr;
  std::optional<Stream> stream_;
};

// A ring. Never destroyed: threads may outlive the statics.
constexpr size_t kMeasurements = 16;
std::atomic<size_t> g_oldest{0}, g_next{0};

Measurement& measurement(size_t number) {
  static auto* const ring = new Measurement[kMeasurements];
  return ring[number % kMeasurements];
}

// The number of a measurement that has begun, from 1; 0: none. Threads that come at once may miss their turn.
uint8_t measure(Count& count, Stream stream) noexcept {
  if (watchers::has(watchers::capture)) return 0;
  for (size_t oldest = g_oldest; oldest < g_next; oldest = ++g_oldest) {
    measurement(oldest).collect();
    if (!measurement(oldest).is_idle()) break;
  }
  const size_t next = g_next;
  if (!measurement(next).begin(count, stream)) return 0;
  ++g_next;
  return static_cast<uint8_t>(1 + next % kMeasurements);
}

// Not every 24th, which may always be the same operator of a loop.
bool is_due() {
  thread_local uint32_t left = 1, random = 2463534242;
  if (C10_LIKELY(--left != 0)) return false;
  random ^= random << 13;
  random ^= random >> 17;
  random ^= random << 5;
  left = 8 + random % 32;
  return true;
}

// ---- answers --------------------------------------------------------------------------------------------------------

using Clock = std::chrono::steady_clock;
Clock::time_point g_since;      // of the inspection's thread
Clock::duration g_before = {};  // of earlier times

std::string operators_part() {
  struct Sum {
    Kind kind = Kind::kernel;
    uint64_t calls = 0, measured = 0, nanoseconds = 0;
  };
  if (!counting()) {
    g_since = Clock::now();
    watchers::set(watchers::count, true);
  }
  std::map<std::string, Sum> sums;
  const auto add = [&](const Count& count, const char* name) {
    Sum& sum = sums[name];
    sum.kind = count.kind;
    sum.calls += count.calls;
    sum.measured += count.measured;
    sum.nanoseconds += count.nanoseconds;
  };
  for (const Count& count : g_counts)
    if (const char* const name = count.name.load(std::memory_order_acquire)) add(count, name);
  if (g_rest.calls) add(g_rest, "others");
  std::string list;
  for (const auto& [name, sum] : sums)
    list += c10::str(list.empty() ? "" : ", ", "{\"name\": ", quoted(name), ", \"kind\": \"", name_of(sum.kind),
                     "\", \"calls\": ", sum.calls, ", \"measured\": ", sum.measured,
                     ", \"nanoseconds\": ", sum.nanoseconds, "}");
  const std::chrono::duration<double> seconds = g_before + (Clock::now() - g_since);
  return c10::str("{\"seconds\": ", seconds.count(), ", \"launches\": [", list, "]}");
}

void stop_counting() {
  watchers::set(watchers::count, false);
  g_before += Clock::now() - g_since;
}

[[maybe_unused]] const bool g_is_inspected = (inspection::add("operators", &operators_part, &stop_counting), true);

}  // namespace

const char* name_of(Kind kind) {
  static const char* const names[] = {"kernel", "copy", "collective", "graph"};
  return names[static_cast<size_t>(kind)];
}

Call begin(const char* name, Kind kind, Stream stream) noexcept {
  Call call{&count_of(name, kind)};
  if (is_due()) call.measurement = measure(*call.count, stream);
  return call;
}

void end(const Call& call, bool refused) noexcept {
  if (!refused) call.count->calls.fetch_add(1, std::memory_order_relaxed);
  if (call.measurement) measurement(call.measurement - 1u).end(refused);
}

}  // namespace npu::launch_counts
