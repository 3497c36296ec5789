#include "order.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "address.h"
#include "error.h"
#include "event.h"
#include "stream.h"

namespace softnpu::order {

namespace {

constexpr size_t kRemembered = 1024;  // tasks of a stream; what lies further back is not looked at

struct Access {
  uint64_t position;
  const char* task;
  TouchedBytes span;
};

struct Timeline {
  uint64_t position = 0;  // of the last task
  Clock behind;           // what the next task stands behind, of the other streams
  std::deque<Access> accesses;
};

struct State {
  std::mutex mutex;
  std::map<int, Timeline> streams;
  Clock host;
};

State& state() {
  static State* const s = new State;  // leaked: threads may outlive static destruction
  return *s;
}

uint64_t at(const Clock& clock, int stream) {
  const auto it = clock.find(stream);
  return it == clock.end() ? 0 : it->second;
}

void merge(Clock& into, const Clock& other) {
  for (const auto& [stream, position] : other) into[stream] = std::max(into[stream], position);
}

bool conflict(const TouchedBytes& a, const TouchedBytes& b) {
  return (a.written || b.written) && a.dense && b.dense && a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

// Host memory is the host's to order.
bool counts(const TouchedBytes& span) { return span.bytes != 0 && is_device_address(device_address(span.begin)); }

const char* does(const TouchedBytes& span) { return span.written ? "writes" : "reads"; }

// The last access of `timeline` behind `known` that is in the way of `span`.
const Access* find(const Timeline& timeline, uint64_t known, const TouchedBytes& span) {
  for (auto it = timeline.accesses.rbegin(); it != timeline.accesses.rend() && it->position > known; ++it)
    if (conflict(it->span, span)) return &*it;
  return nullptr;
}

void forget_what_the_host_saw(State& s) {
  for (auto& [id, timeline] : s.streams) {
    const uint64_t seen = at(s.host, id);
    while (!timeline.accesses.empty() && timeline.accesses.front().position <= seen) timeline.accesses.pop_front();
  }
}

void host_reaches(State& s, const Clock& clock) {
  merge(s.host, clock);
  forget_what_the_host_saw(s);
}

}  // namespace

void submitted(const Stream& stream, const Task& task) {
  const std::vector<TouchedBytes> spans = task.memory();
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  Timeline& own = s.streams[stream.id()];
  for (const auto& [id, other] : s.streams) {
    const uint64_t known = std::max(at(own.behind, id), at(s.host, id));
    if (id == stream.id() || other.position <= known) continue;
    for (const TouchedBytes& span : spans)
      if (const Access* access = counts(span) ? find(other, known, span) : nullptr)
        fail(
            ACL_ERROR_RT_PARAM_INVALID,
            "%s on stream %d %s argument '%.*s' at %p, which %s %s as '%.*s' on stream %d, with nothing to order them: "
            "let stream %d wait for an event that is recorded behind %s, or synchronise first (SOFTNPU_STRICT)",
            task.name(), stream.id(), does(span), static_cast<int>(span.argument.size()), span.argument.data(),
            device_address(span.begin), access->task, does(access->span),
            static_cast<int>(access->span.argument.size()), access->span.argument.data(), id, stream.id(),
            access->task);
  }
  own.position++;
  for (const TouchedBytes& span : spans)
    if (counts(span)) own.accesses.push_back({own.position, task.name(), span});
  while (own.accesses.size() > kRemembered) own.accesses.pop_front();
}

void recorded(const Stream& stream, Completion& completion) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const Timeline& own = s.streams[stream.id()];
  completion.clock = own.behind;
  completion.clock[stream.id()] = own.position;
}

void waits(const Stream& stream, const Completion& completion) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  merge(s.streams[stream.id()].behind, completion.clock);
}

void waits_for_all(const Stream& stream) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  Clock& behind = s.streams[stream.id()].behind;
  for (const auto& [id, timeline] : s.streams) behind[id] = timeline.position;
}

void host_waited(const Completion& completion) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  host_reaches(s, completion.clock);
}

void host_waited(const Stream& stream) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const auto it = s.streams.find(stream.id());
  if (it == s.streams.end()) return;
  Clock clock = it->second.behind;
  clock[stream.id()] = it->second.position;
  host_reaches(s, clock);
}

void ended(const Stream& stream) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.streams.erase(stream.id());
  s.host.erase(stream.id());
  for (auto& [id, timeline] : s.streams) timeline.behind.erase(stream.id());
}

void host_touches(const char* what, const TouchedBytes& span) {
  if (!counts(span)) return;
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  for (const auto& [id, timeline] : s.streams)
    if (const Access* access = find(timeline, at(s.host, id), span))
      fail(
          ACL_ERROR_RT_PARAM_INVALID,
          "%s %s argument '%.*s' at %p, which %s %s as '%.*s' on stream %d and may not be done: synchronise the stream "
          "first (SOFTNPU_STRICT)",
          what, does(span), static_cast<int>(span.argument.size()), span.argument.data(), device_address(span.begin),
          access->task, does(access->span), static_cast<int>(access->span.argument.size()),
          access->span.argument.data(), id);
}

Mark mark(const Stream& stream) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  return {stream.id(), s.streams[stream.id()].position};
}

bool stands_behind(const Stream& stream, const Mark& mark) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const bool ended = s.streams.find(mark.stream) == s.streams.end();
  if (mark.stream < 0 || mark.stream == stream.id() || ended) return true;
  return std::max(at(s.streams[stream.id()].behind, mark.stream), at(s.host, mark.stream)) >= mark.position;
}

}  // namespace softnpu::order
