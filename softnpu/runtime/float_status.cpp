#include "runtime/float_status.h"

#include <cstring>

#include "runtime/address.h"
#include "runtime/context.h"
#include "runtime/error.h"
#include "runtime/stream.h"

namespace softnpu {

namespace {

struct Status {
  std::atomic<bool> watched{false}, overflowed{false};
};
constinit Status g_status[kMaxCards];

class StatusTask final : public Task {
 public:
  StatusTask(FloatStatus what, char* numbers, aclDataType dtype) : what_(what), numbers_(numbers), dtype_(dtype) {}

  void run() override {
    Status& status = g_status[t_thread.running->context().card];
    if (numbers_) memset(numbers_, 0, kBytes);
    if (what_ == FloatStatus::read && status.overflowed.load()) set_first();
    if (what_ != FloatStatus::clear) return;
    status.overflowed.store(false);
    status.watched.store(true);
    g_overflow_watched.store(true);
  }
  std::string describe() const override { return name(); }
  const char* name() const noexcept override {
    return what_ == FloatStatus::make   ? "NPUAllocFloatStatus"
           : what_ == FloatStatus::read ? "NPUGetFloatStatus"
                                        : "NPUClearFloatStatus";
  }
  std::vector<TouchedBytes> memory() const override {
    return numbers_ ? std::vector<TouchedBytes>{{numbers_, kBytes, true, "float_status"}} : std::vector<TouchedBytes>{};
  }

  static constexpr size_t kBytes = kFloatStatusNumbers * 4;

 private:
  void set_first() {
    const float real = 1;
    const int32_t integer = 1;
    dtype_ == ACL_FLOAT ? memcpy(numbers_, &real, sizeof real) : memcpy(numbers_, &integer, sizeof integer);
  }

  const FloatStatus what_;
  char* const numbers_;  // as kernels see them
  const aclDataType dtype_;
};

}  // namespace

std::atomic<bool> g_overflow_watched{false};

bool running_stream_is_watched() noexcept {
  const Stream* const stream = t_thread.running;
  return stream && (stream->overflow_switch.load(std::memory_order_relaxed) != 0 ||
                    g_status[stream->context().card].watched.load(std::memory_order_relaxed));
}

void report_overflow() noexcept { g_status[t_thread.running->context().card].overflowed.store(true); }

Task* float_status_task(FloatStatus what, void* numbers, aclDataType dtype) {
  if (numbers) {
    if (dtype != ACL_FLOAT && dtype != ACL_INT32)
      fail(ACL_ERROR_INVALID_PARAM, "a float status of data type %d, which is neither float nor int32", dtype);
    check_allocated(numbers, StatusTask::kBytes, -1, "the float status");
  }
  return new StatusTask(what, numbers ? kernel_address(numbers) : nullptr, dtype);
}

}  // namespace softnpu
