// Captures that are under way: what allocators, generators and waiting threads must know of graphs (graph/graph.h),
// which begin and end them. While there is one the task queue is off: a captured stream runs nothing, and what a call
// becomes must be known when it returns.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "acl_types.h"

namespace npu {

struct Philox;

// Random numbers of a graph: its kernels read seed and offset from the card, where each replay puts the generator's.
struct CapturedPhilox {
  c10::intrusive_ptr<Philox> generator;
  at::Tensor seed, offset;
  const uint64_t start;  // the generator's offset when the capture met it
  uint64_t used = 0;     // values per replay
};

struct Capture {
  const c10::DeviceIndex device;
  const aclmdlRI model;
  std::mutex mutex;  // generators; a graph's own threads only, but autograd has one too
  std::vector<std::unique_ptr<CapturedPhilox>> generators;
  std::atomic<bool> has_tasks{false};
};

namespace captures {

extern std::atomic<int> g_active;
inline bool any() noexcept { return g_active.load(std::memory_order_relaxed) != 0; }

void begin(Capture& capture);
void end(Capture& capture) noexcept;
Capture* of_stream(aclrtStream stream);  // nullptr: it is not being captured
Capture* of_current_stream();
void note_task();  // the current stream is given one

// The calling thread may wait for the device though streams are being captured.
class Relaxed {
 public:
  Relaxed() noexcept;
  ~Relaxed();
  Relaxed(const Relaxed&) = delete;

 private:
  bool changed_ = false;
  aclmdlRICaptureMode before_{};
};

}  // namespace captures
}  // namespace npu
