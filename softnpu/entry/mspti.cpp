// libmspti.so's functions: activity records of kernels, copies, fills and collectives, and of the calls that made them,
// in buffers that the client gives. Records are written by whichever thread ran the task; a full buffer is handed back
// by the one that filled it.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
#include "mspti.h"
#pragma GCC visibility pop
#include "runtime/activity.h"

namespace softnpu {

namespace {

constexpr uint32_t bit(int kind) { return 1u << kind; }
constexpr uint32_t kWork = bit(MSPTI_ACTIVITY_KIND_KERNEL) | bit(MSPTI_ACTIVITY_KIND_MEMSET) |
                           bit(MSPTI_ACTIVITY_KIND_MEMCPY) | bit(MSPTI_ACTIVITY_KIND_COMMUNICATION) |
                           bit(MSPTI_ACTIVITY_KIND_ACL_API);
constexpr uint32_t kKinds = kWork | bit(MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);

// Of the calling thread, a stack for each kind.
thread_local std::vector<uint64_t> t_external[MSPTI_EXTERNAL_CORRELATION_KIND_SIZE];

size_t size_of(int kind) {
  switch (kind) {
    case MSPTI_ACTIVITY_KIND_KERNEL:
      return sizeof(msptiActivityKernel);
    case MSPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(msptiActivityMemset);
    case MSPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(msptiActivityMemcpy);
    case MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(msptiActivityExternalCorrelation);
    case MSPTI_ACTIVITY_KIND_COMMUNICATION:
      return sizeof(msptiActivityCommunication);
    case MSPTI_ACTIVITY_KIND_ACL_API:
      return sizeof(msptiActivityApi);
    default:
      return 0;
  }
}

uint64_t bytes_written(const Task& task) {
  uint64_t bytes = 0;
  for (const TouchedBytes& span : task.memory()) bytes += span.written ? span.bytes : 0;
  return bytes;
}

class Recorder final : public activity::Listener {
 public:
  static Recorder& one() {
    static auto* recorder = new Recorder;  // never destroyed: streams may outlive static objects
    return *recorder;
  }

  msptiResult subscribe() {
    std::lock_guard lock(mutex_);
    if (subscribed_) return MSPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    subscribed_ = true;
    choose();
    return MSPTI_SUCCESS;
  }
  msptiResult unsubscribe() {
    std::lock_guard lock(mutex_);
    if (!subscribed_) return MSPTI_ERROR_NOT_INITIALIZED;
    subscribed_ = false;
    choose();
    return MSPTI_SUCCESS;
  }
  void set_callbacks(msptiBuffersCallbackRequestFunc requested, msptiBuffersCallbackCompleteFunc completed) {
    std::lock_guard lock(mutex_);
    requested_ = requested;
    completed_ = completed;
  }
  msptiResult enable(int kind, bool on) {
    if (kind < 0 || kind >= 32 || !(kKinds & bit(kind))) return MSPTI_ERROR_INVALID_KIND;
    std::lock_guard lock(mutex_);
    kinds_ = on ? kinds_.load() | bit(kind) : kinds_.load() & ~bit(kind);
    choose();
    return MSPTI_SUCCESS;
  }
  bool enabled(int kind) const { return kind >= 0 && kind < 32 && (kinds_.load() & bit(kind)); }

  msptiResult flush() {
    Buffer full;
    msptiBuffersCallbackCompleteFunc completed;
    {
      std::lock_guard lock(mutex_);
      if (!(completed = completed_)) return MSPTI_ERROR_NOT_INITIALIZED;
      std::swap(full, buffer_);
    }
    if (full.begin) completed(full.begin, full.size, full.used);
    return MSPTI_SUCCESS;
  }

  void submitted(uint64_t number) noexcept override {
    if (!enabled(MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) return;
    for (int kind = 1; kind < MSPTI_EXTERNAL_CORRELATION_KIND_SIZE; ++kind)
      if (!t_external[kind].empty())
        append(msptiActivityExternalCorrelation{MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, kind, t_external[kind].back(),
                                                number});
  }

  void called(uint64_t number, const char* name, uint64_t begin, uint64_t end) noexcept override {
    if (enabled(MSPTI_ACTIVITY_KIND_ACL_API))
      append(msptiActivityApi{MSPTI_ACTIVITY_KIND_ACL_API, begin, end, static_cast<uint32_t>(getpid()),
                              static_cast<uint32_t>(syscall(SYS_gettid)), number, name});
  }

  void ran(uint64_t number, const Task& task, int device, int stream, uint64_t begin, uint64_t end) noexcept override {
    const std::string_view name = task.name();
    const auto card = static_cast<uint32_t>(device), lane = static_cast<uint32_t>(stream);
    if (name == "aclrtMemcpyAsync") {
      if (enabled(MSPTI_ACTIVITY_KIND_MEMCPY))
        append(msptiActivityMemcpy{MSPTI_ACTIVITY_KIND_MEMCPY, MSPTI_ACTIVITY_MEMCPY_KIND_DEFAULT, bytes_written(task),
                                   begin, end, card, lane, number, 1});
    } else if (name == "aclrtMemsetAsync") {
      if (enabled(MSPTI_ACTIVITY_KIND_MEMSET))
        append(
            msptiActivityMemset{MSPTI_ACTIVITY_KIND_MEMSET, 0, bytes_written(task), begin, end, card, lane, number, 1});
    } else if (name.starts_with("Hccl")) {
      if (enabled(MSPTI_ACTIVITY_KIND_COMMUNICATION))
        append(msptiActivityCommunication{MSPTI_ACTIVITY_KIND_COMMUNICATION, MSPTI_ACTIVITY_COMMUNICATION_INVALID_TYPE,
                                          0, card, lane, begin, end, "", task.name(), "", number});
    } else if (enabled(MSPTI_ACTIVITY_KIND_KERNEL)) {
      const bool graph = name == "a graph";
      if (graph || name.starts_with("acl") || name.starts_with("softnpu"))
        append(msptiActivityKernel{MSPTI_ACTIVITY_KIND_KERNEL, begin, end, card, lane, number,
                                   graph ? "MODEL_EXECUTE" : "KERNEL_AICORE",
                                   graph ? "aclmdlRIExecuteAsync" : task.name()});
    }
  }

 private:
  struct Buffer {
    uint8_t* begin = nullptr;
    size_t size = 0, used = 0, records = 0, most = 0;  // most: records that it may hold, 0: any number
    bool takes(size_t bytes) const { return used + bytes <= size && (most == 0 || records < most); }
  };

  void choose() { activity::listen(subscribed_ && (kinds_.load() & kWork) ? this : nullptr); }

  template <class Record>
  void append(const Record& record) noexcept {
    Buffer full;
    msptiBuffersCallbackCompleteFunc completed;
    {
      std::lock_guard lock(mutex_);
      completed = completed_;
      if (!requested_) return;
      if (buffer_.begin && !buffer_.takes(sizeof record)) std::swap(full, buffer_);
      if (!buffer_.begin) requested_(&buffer_.begin, &buffer_.size, &buffer_.most);
      if (buffer_.begin && buffer_.takes(sizeof record)) {  // else the client declines, and the record is lost
        memcpy(buffer_.begin + buffer_.used, &record, sizeof record);
        buffer_.used += sizeof record;
        buffer_.records++;
      }
    }
    if (full.begin) completed(full.begin, full.size, full.used);
  }

  std::mutex mutex_;
  bool subscribed_ = false;
  std::atomic<uint32_t> kinds_{0};
  msptiBuffersCallbackRequestFunc requested_ = nullptr;
  msptiBuffersCallbackCompleteFunc completed_ = nullptr;
  Buffer buffer_;
};

bool external(int kind) {
  return kind > MSPTI_EXTERNAL_CORRELATION_KIND_INVALID && kind < MSPTI_EXTERNAL_CORRELATION_KIND_SIZE;
}

}  // namespace

}  // namespace softnpu

using softnpu::Recorder;

extern "C" {

// Callbacks belong to domains of calls, of which softnpu has none: the function is never due.
msptiResult msptiSubscribe(msptiSubscriberHandle* subscriber, msptiCallbackFunc, void*) {
  if (!subscriber) return MSPTI_ERROR_INVALID_PARAMETER;
  const msptiResult result = Recorder::one().subscribe();
  if (result == MSPTI_SUCCESS) *subscriber = reinterpret_cast<msptiSubscriberHandle>(&Recorder::one());
  return result;
}

msptiResult msptiUnsubscribe(msptiSubscriberHandle subscriber) {
  if (subscriber != reinterpret_cast<msptiSubscriberHandle>(&Recorder::one())) return MSPTI_ERROR_INVALID_PARAMETER;
  return Recorder::one().unsubscribe();
}

msptiResult msptiActivityRegisterCallbacks(msptiBuffersCallbackRequestFunc requested,
                                           msptiBuffersCallbackCompleteFunc completed) {
  if (!requested || !completed) return MSPTI_ERROR_INVALID_PARAMETER;
  Recorder::one().set_callbacks(requested, completed);
  return MSPTI_SUCCESS;
}

msptiResult msptiActivityEnable(msptiActivityKind kind) { return Recorder::one().enable(kind, true); }
msptiResult msptiActivityDisable(msptiActivityKind kind) { return Recorder::one().enable(kind, false); }
bool msptiActivityIsEnabled(msptiActivityKind kind) { return Recorder::one().enabled(kind); }

msptiResult msptiActivityGetNextRecord(uint8_t* buffer, size_t validBytes, msptiActivity** record) {
  if (!buffer || !record) return MSPTI_ERROR_INVALID_PARAMETER;
  uint8_t* next = buffer;
  if (*record) {
    const size_t size = softnpu::size_of((*record)->kind);
    if (size == 0) return MSPTI_ERROR_INVALID_KIND;
    next = reinterpret_cast<uint8_t*>(*record) + size;
  }
  if (next >= buffer + validBytes) return MSPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<msptiActivity*>(next);
  return MSPTI_SUCCESS;
}

msptiResult msptiActivityFlushAll(uint32_t) { return Recorder::one().flush(); }  // the flag is reserved

msptiResult msptiActivityPushExternalCorrelationId(msptiExternalCorrelationKind kind, uint64_t id) {
  if (!softnpu::external(kind)) return MSPTI_ERROR_INVALID_PARAMETER;
  softnpu::t_external[kind].push_back(id);
  return MSPTI_SUCCESS;
}

msptiResult msptiActivityPopExternalCorrelationId(msptiExternalCorrelationKind kind, uint64_t* lastId) {
  if (!softnpu::external(kind)) return MSPTI_ERROR_INVALID_PARAMETER;
  auto& ids = softnpu::t_external[kind];
  if (ids.empty()) return MSPTI_ERROR_QUEUE_EMPTY;
  if (lastId) *lastId = ids.back();
  ids.pop_back();
  return MSPTI_SUCCESS;
}

}  // extern "C"
