// How often each operator, copy, collective and graph was launched and how long the card took: the part "operators" of
// an inspection (runtime/inspection.h), which `python -m torch_npu.dashboard` asks for.
//
// Note [Counted launches]
// The first question turns counting on, ten seconds without a question turn it off; the counts stay, so whoever asks
// takes the difference to the last answer. A launch is counted when its call has succeeded, on whichever thread, with
// one atomic addition; operators are told apart by the address of their name, and put together by the name when asked.
// In about every 24th launch of a thread the card's time is measured as well, between two events. A process has few
// measurements, so a deep queue means fewer results. The next launch that is to be measured takes the results of those
// that have ended: nobody waits, and the thread that answers asks no device. None is begun or read while a graph is
// captured. What is recorded into a graph is not counted: its replay is.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/stream.h"
#include "runtime/watchers.h"

namespace npu::launch_counts {

enum class Kind : uint8_t { kernel, copy, collective, graph };
const char* name_of(Kind kind);

struct Count {
  std::atomic<const char*> name{nullptr};
  std::atomic<Kind> kind{Kind::kernel};
  std::atomic<uint64_t> calls{0}, measured{0}, nanoseconds{0};  // nanoseconds: of those that were measured
};

struct Call {
  Count* count = nullptr;
  uint8_t measurement = 0;  // its number, from 1; 0: none
};

inline bool counting() noexcept { return watchers::has(watchers::count); }

// Around one launch, by kernel_trace::Span. `name` is kept.
Call begin(const char* name, Kind kind, Stream stream) noexcept;
void end(const Call& call, bool refused) noexcept;

}  // namespace npu::launch_counts
