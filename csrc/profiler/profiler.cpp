// What torch.autograd.profiler.profile(use_device="npu") calls around every operator: events that measure time on the
// current stream, so that an operator's device time is that of the work it gave to the stream.
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <memory>

#include "runtime/device.h"
#include "runtime/event.h"

namespace npu {

namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

class ProfilerEvents : public torch::profiler::impl::ProfilerStubs {
 public:
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    const auto stream = current_stream();
    auto recorded = std::make_shared<Event>(/*enable_timing=*/true);
    recorded->record(stream);
    if (device) *device = stream.device_index();
    if (cpu_ns) *cpu_ns = c10::getTime();
    *event = std::move(recorded);
  }

  // In microseconds.
  float elapsed(const ProfilerVoidEventStub* begin, const ProfilerVoidEventStub* end) const override {
    const auto& from = *static_cast<const Event*>(begin->get());
    const auto& to = *static_cast<const Event*>(end->get());
    from.synchronize();
    to.synchronize();
    return from.elapsed_time(to) * 1000.0F;
  }

  void onEachDevice(std::function<void(int)> op) const override {
    for (c10::DeviceIndex device = 0; device < device_count(); device++) {
      if (!has_primary_context(device)) continue;
      DeviceGuard guard(device);
      op(device);
    }
  }

  void synchronize() const override { npu::synchronize(); }
  bool enabled() const override { return true; }

  // Ranges are for a tool that watches the process (emit_nvtx); there is none here.
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
};

const bool registered = [] {
  static ProfilerEvents events;
  torch::profiler::impl::registerPrivateUse1Methods(&events);
  return true;
}();

}  // namespace

}  // namespace npu
