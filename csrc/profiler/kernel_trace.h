// What looks at whatever goes to the card: torch.profiler with ProfilerActivity.PrivateUse1, which has it stand between
// two events of its stream, and the counters of launch_counts.h. A launch that nobody looks at costs one load more.
//
// Note [What the trace shows of a launch]
// Three activities of kineto, which share the number under "correlation":
// - on the card's lane of the stream, from event to event: the kernel, copy, collective or replayed graph;
// - on the calling thread, PRIVATEUSE1_RUNTIME "AscendCL@...": the call itself, where the arrow to the card begins;
// - at TASK_QUEUE_ENABLE 1 and 2, on a lane of the task queue, "Dequeue@..." with the thread that ran it: the call is
// then called "Enqueue@...". "External id" is the operator's, as for other devices.
#pragma once

#include <cstdint>
#include <string>

#include "profiler/launch_counts.h"
#include "runtime/event.h"
#include "runtime/watchers.h"

namespace npu::kernel_trace {

inline bool recording() noexcept { return watchers::has(watchers::trace); }
inline bool observed() noexcept { return watchers::has(watchers::Watcher{watchers::trace | watchers::count}); }

using launch_counts::Kind;

// What a copy or a collective moves.
struct Traffic {
  uint64_t bytes = 0;
  const char* direction = nullptr;  // of a copy: "HtoD"
  std::string group;                // of a collective: the communicator
};

struct Launch;

// Lives around one launch. `name` is kept, not copied.
class Span {
 public:
  explicit Span(const char* name, Kind kind = Kind::kernel) {
    if (observed()) begin(name, kind, current_stream(), {});
  }
  // `traffic` is called when the launch is recorded.
  template <typename Describe>
  Span(const char* name, Kind kind, Stream stream, Describe&& traffic) {
    if (observed()) begin(name, kind, stream, recording() ? traffic() : Traffic{});
  }
  ~Span() {
    if (C10_UNLIKELY(exceptions_ >= 0)) end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  void begin(const char* name, Kind kind, Stream stream, Traffic traffic);
  void end() noexcept;

  Launch* launch_ = nullptr;
  launch_counts::Call call_;
  int exceptions_ = -1;  // under way when it began; -1: nobody looks
};

// Appends one line for each launch that is over and was not written yet: name, kind, card, stream, begin and duration
// in nanoseconds, operator, correlation, bytes, direction or group, separated by tabs. What a killed program leaves
// behind. Returns the number of lines; -1 when the file takes no more, with errno set. Never waits for the card.
int64_t write_finished(int file);

}  // namespace npu::kernel_trace
