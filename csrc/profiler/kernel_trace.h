// Device times for torch.profiler with ProfilerActivity.PrivateUse1: while it records, each launch stands between two
// events of its stream. A launch that is not recorded costs one load more.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/event.h"

namespace npu::kernel_trace {

extern std::atomic<bool> recording;

// Lives around one launch on the current stream. `name` is kept, not copied.
class Span {
 public:
  explicit Span(const char* name) {
    if (C10_UNLIKELY(recording.load(std::memory_order_relaxed))) begin(name);
  }
  ~Span() {
    if (C10_UNLIKELY(name_ != nullptr)) end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  void begin(const char* name);
  void end() noexcept;

  const char* name_ = nullptr;
  std::unique_ptr<Event> begin_;
};

}  // namespace npu::kernel_trace
