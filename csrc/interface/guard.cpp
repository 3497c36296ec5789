// The device guard: how torch itself (dispatcher, autograd engine, torch.Stream, torch.Event, torch.accelerator)
// changes cards and streams and uses events of the npu device. Every function is a line over device.h, stream.h or
// event.h.
//
// Note [Event objects]
// ~~~~~~~~~~~~~~~~~~~~
// c10::Event carries a void*. It is an npu::Event, not the ACL event: with a task queue, an answer also needs to know
// whether the record has left the queue. It is made at the first record, so nullptr means never recorded. One with the
// flag kGiven gets an npu::Event that exists already (of another process, say): upstream has no way in but record(), so
// the first call brings its address as the stream's number, and records nothing.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "memory/caching_allocator.h"
#include "runtime/device.h"
#include "runtime/event.h"
#include "runtime/stream.h"
#include "runtime/sync_debug.h"

namespace npu {

namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;

struct GuardImpl final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }

  c10::Device exchangeDevice(c10::Device device) const override { return {kType, exchange_device(device.index())}; }
  c10::Device getDevice() const override { return {kType, current_device()}; }
  // The autograd engine selects every card, one per thread, before any work: that must open none.
  void setDevice(c10::Device device) const override { maybe_exchange_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    try {
      maybe_exchange_device(device.index());
    } catch (...) {  // called by destructors; the next use of the card reports what is wrong
    }
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }

  c10::Stream getStream(c10::Device device) const override { return current_stream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override { return default_stream(device.index()); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return stream_from_pool(high_priority ? -1 : 0, device.index());
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return stream_from_pool(priority, device.index());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream previous = current_stream(stream.device_index());
    set_current_stream(Stream(stream));
    return previous;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return Stream(stream).handle(); }
  bool queryStream(const c10::Stream& stream) const override { return Stream(stream).query(); }
  void synchronizeStream(const c10::Stream& stream) const override {
    sync_debug::before_wait();
    Stream(stream).synchronize();
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override { synchronize(device); }
  bool isStreamCapturing(const c10::Stream&) const override { return false; }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    caching_allocator::record_stream(data, Stream(stream));
  }

  // See Note [Event objects].
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(device == -1 || device == stream.device_index(), "Event device index ", int{device},
                " does not match recording stream's device index ", int{stream.device_index()}, ".");
    if (!*event && flag == kGiven) {
      *event = reinterpret_cast<void*>(stream.id());
      return;
    }
    if (!*event) *event = new Event(flag == c10::EventFlag::BACKEND_DEFAULT, flag == kInterprocess);
    static_cast<Event*>(*event)->record(Stream(stream));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) static_cast<Event*>(event)->block(Stream(stream));
  }
  bool queryEvent(void* event) const override { return !event || static_cast<Event*>(event)->poll(); }
  void synchronizeEvent(void* event) const override {
    if (event) static_cast<Event*>(event)->synchronize();
  }
  double elapsedTime(void* begin, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK_VALUE(begin && end, "Both events must be recorded before calculating elapsed time.");
    return static_cast<Event*>(begin)->elapsed_time(*static_cast<Event*>(end));
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }

  // What a tensor of the card may hold: the types that the ABI has a number for.
  c10::DeviceCapability getDeviceCapability(c10::Device device) const override {
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = 0;
    auto& has = capability.capability_data.supported_scalar_types;
    has.has_Byte = has.has_Char = has.has_Short = has.has_Int = has.has_Long = has.has_Bool = 1;
    has.has_UInt16 = has.has_UInt32 = has.has_UInt64 = 1;
    has.has_Half = has.has_Float = has.has_Double = 1;
    has.has_ComplexHalf = has.has_ComplexFloat = has.has_ComplexDouble = 1;
    has.has_Float8_e5m2 = has.has_Float8_e4m3fn = has.has_Float8_e8m0fnu = has.has_Float4_e2m1fn_x2 = 1;
    has.has_BFloat16 = get_device_properties(device.index()).bf16;
    return capability;
  }
};

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl)

}  // namespace npu
