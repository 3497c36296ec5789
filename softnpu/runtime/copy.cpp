#include "copy.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "address.h"
#include "config.h"
#include "context.h"
#include "error.h"
#include "graph.h"
#include "host_memory.h"
#include "order.h"
#include "stream.h"
#include "task.h"
#include "trace.h"

namespace softnpu {

namespace {

constexpr size_t kStaged = 64 * 1024;  // pageable sources up to this size are copied into the task
constexpr size_t kShare = 4 << 20;     // least that is worth a thread of its own

std::atomic<int (*)()> g_thread_count{nullptr};

// A copy whose arguments are checked and whose addresses are the kernels'.
struct Plan {
  char* dst;
  const char* src;
  size_t bytes;
  bool dst_device, src_device;
  int threads;  // as many as a kernel may use that the calling thread launches
};

int threads_for(size_t bytes) {
  if (bytes < 2 * kShare) return 1;
  auto* const of_this_thread = g_thread_count.load(std::memory_order_relaxed);
  return of_this_thread ? std::min(config().threads, of_this_thread()) : config().threads;
}

const char* place(bool device) { return device ? "device" : "host"; }

void expect(bool is_device, bool wanted, const char* argument, const void* address, aclrtMemcpyKind kind) {
  if (is_device != wanted)
    fail(ACL_ERROR_RT_PARAM_INVALID, "%s %p is %s memory, but kind %d copies %s %s memory", argument, address,
         place(is_device), static_cast<int>(kind), *argument == 'd' ? "to" : "from", place(wanted));
}

void check_kind(const CopyRequest& r, bool dst, bool src) {
  switch (r.kind) {
    case ACL_MEMCPY_DEFAULT:
      return;
    case ACL_MEMCPY_HOST_TO_HOST:
      expect(dst, false, "dst", r.dst, r.kind), expect(src, false, "src", r.src, r.kind);
      return;
    case ACL_MEMCPY_HOST_TO_DEVICE:
    case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
      expect(dst, true, "dst", r.dst, r.kind), expect(src, false, "src", r.src, r.kind);
      return;
    case ACL_MEMCPY_DEVICE_TO_HOST:
      expect(dst, false, "dst", r.dst, r.kind), expect(src, true, "src", r.src, r.kind);
      return;
    case ACL_MEMCPY_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE:
      expect(dst, true, "dst", r.dst, r.kind), expect(src, true, "src", r.src, r.kind);
      return;
  }
  fail(ACL_ERROR_RT_PARAM_INVALID, "kind %d is no copy direction", static_cast<int>(r.kind));
}

Plan plan(const CopyRequest& r) {
  if (r.bytes > r.dst_max) fail(ACL_ERROR_RT_PARAM_INVALID, "count %zu is larger than destMax %zu", r.bytes, r.dst_max);
  const bool dst = is_device_address(r.dst), src = is_device_address(r.src);
  check_kind(r, dst, src);
  if (r.bytes == 0) return {nullptr, nullptr, 0, dst, src, 1};
  if (!r.dst) fail(ACL_ERROR_INVALID_PARAM, "dst is NULL");
  if (!r.src) fail(ACL_ERROR_INVALID_PARAM, "src is NULL");
  if (dst) check_allocated(r.dst, r.bytes, -1, "dst");
  if (src) check_allocated(r.src, r.bytes, -1, "src");
  return {dst ? kernel_address(r.dst) : static_cast<char*>(r.dst),
          src ? kernel_address(r.src) : static_cast<const char*>(r.src),
          r.bytes,
          dst,
          src,
          threads_for(r.bytes)};
}

void count(const Plan& p) {
  if (p.src_device)
    ++(p.dst_device ? g_counters.d2d_copies : g_counters.d2h_copies);
  else if (p.dst_device)
    ++g_counters.h2d_copies;
}

class CopyTask final : public Task {
 public:
  explicit CopyTask(const Plan& p) : plan_(p) {}
  CopyTask(const Plan& p, std::unique_ptr<char[]> staged) : plan_(p), staged_(std::move(staged)) {
    plan_.src = staged_.get();
  }
  void run() override { move_bytes(plan_.dst, plan_.src, plan_.bytes, plan_.threads); }
  std::string describe() const override {
    return "copy of " + std::to_string(plan_.bytes) + " bytes from " + place(plan_.src_device) + " to " +
           place(plan_.dst_device);
  }
  const char* name() const noexcept override { return "aclrtMemcpyAsync"; }
  std::vector<TouchedBytes> memory() const override {
    return {{plan_.dst, plan_.bytes, true, "dst"}, {plan_.src, plan_.bytes, false, "src"}};
  }

 private:
  Plan plan_;
  std::unique_ptr<char[]> staged_;
};

class FillTask final : public Task {
 public:
  FillTask(char* dst, int value, size_t bytes) : dst_(dst), value_(value), bytes_(bytes) {}
  void run() override { memset(dst_, value_, bytes_); }
  std::string describe() const override { return "fill of " + std::to_string(bytes_) + " bytes"; }
  const char* name() const noexcept override { return "aclrtMemsetAsync"; }
  std::vector<TouchedBytes> memory() const override { return {{dst_, bytes_, true, "devPtr"}}; }

 private:
  char* dst_;
  int value_;
  size_t bytes_;
};

class ValueTask final : public Task {
 public:
  enum class Kind { write, wait };
  ValueTask(Kind kind, char* address, uint64_t value, uint32_t condition)
      : kind_(kind),
        address_(address),
        number_(*reinterpret_cast<uint64_t*>(address)),
        value_(value),
        condition_(condition) {}
  Waits waits() const noexcept override { return kind_ == Kind::wait ? Waits::for_user : Waits::never; }
  std::string describe() const override { return kind_ == Kind::wait ? "wait for a value" : "write of a value"; }
  const char* name() const noexcept override { return kind_ == Kind::wait ? "aclrtValueWait" : "aclrtValueWrite"; }
  // Read, whichever it is: who writes and who waits need nothing else to be in order.
  std::vector<TouchedBytes> memory() const override { return {{address_, sizeof(uint64_t), false, "devAddr"}}; }
  void run() override {
    if (kind_ == Kind::write) return number_.store(value_, std::memory_order_release);
    for (int tries = 0; !met(number_.load(std::memory_order_acquire)) && !abandoned(); ++tries) {
      const timespec nap{0, tries < 100 ? 1000 : 100000};
      nanosleep(&nap, nullptr);
    }
  }

 private:
  bool met(uint64_t now) const {
    switch (condition_) {
      case ACL_STREAM_WAIT_VALUE_GEQ:
        return static_cast<int64_t>(now - value_) >= 0;
      case ACL_STREAM_WAIT_VALUE_EQ:
        return now == value_;
      case ACL_STREAM_WAIT_VALUE_AND:
        return (now & value_) != 0;
      default:
        return ~(now | value_) != 0;  // NOR
    }
  }

  Kind kind_;
  const char* address_;
  std::atomic_ref<uint64_t> number_;
  uint64_t value_;
  uint32_t condition_;
};

char* checked_number(void* address) {
  check_allocated(address, sizeof(uint64_t), -1, "devAddr");
  if (reinterpret_cast<uintptr_t>(address) % sizeof(uint64_t) != 0)
    fail(ACL_ERROR_RT_ADDR_UNALIGNED, "devAddr %p is not a multiple of 8", address);
  return kernel_address(address);
}

char* checked_fill(void* dst, size_t max, size_t bytes) {
  if (bytes > max) fail(ACL_ERROR_RT_PARAM_INVALID, "count %zu is larger than maxCount %zu", bytes, max);
  if (!dst) fail(ACL_ERROR_INVALID_PARAM, "devPtr is NULL");
  if (!is_device_address(dst)) return static_cast<char*>(dst);
  check_allocated(dst, bytes, -1, "devPtr");
  return kernel_address(dst);
}

void share_bytes(char* to, const char* from, size_t bytes, size_t shares) {
  constexpr size_t kPage = 4096;
  const size_t share = bytes / shares & ~(kPage - 1);
  std::vector<std::jthread> helpers;
  size_t begin = 0;
  try {
    for (; helpers.size() + 1 < shares; begin += share)
      helpers.emplace_back([=] { memcpy(to + begin, from + begin, share); });
    g_counters.copy_helpers += helpers.size();
  } catch (const std::exception&) {  // the limit of threads is reached: this one does the rest
  }
  memcpy(to + begin, from + begin, bytes - begin);
}

}  // namespace

void set_thread_count(int (*of_this_thread)()) { g_thread_count = of_this_thread; }

// One core does not fill the memory bus: a large copy is shared.
void move_bytes(void* dst, const void* src, size_t bytes, int threads) {
  auto* const to = static_cast<char*>(dst);
  auto* const from = static_cast<const char*>(src);
  const bool apart = to + bytes <= from || from + bytes <= to;
  const size_t shares = apart ? std::min<size_t>(threads, bytes / kShare) : 1;
  shares < 2 ? static_cast<void>(memmove(to, from, bytes)) : share_bytes(to, from, bytes, shares);
}

void copy(const CopyRequest& request) {
  current_context();
  check_no_capture("aclrtMemcpy");
  const Plan p = plan(request);
  count(p);
  if (config().strict) {
    order::host_touches("aclrtMemcpy", {p.dst, p.bytes, true, "dst"});
    order::host_touches("aclrtMemcpy", {p.src, p.bytes, false, "src"});
  }
  if (p.bytes) move_bytes(p.dst, p.src, p.bytes, p.threads);
}

// Pageable host memory may change or go as soon as the call returns. A small source is copied into the task; for the
// rest the call waits until the stream has done the copy.
void copy_async(const CopyRequest& request, aclrtStream handle) {
  Stream& stream = Stream::launchable(handle);
  const Plan p = plan(request);
  count(p);
  if (p.bytes == 0) return;
  const bool src_lasts = p.src_device || is_pinned(request.src, p.bytes);
  const bool dst_lasts = p.dst_device || is_pinned(request.dst, p.bytes);
  if (!src_lasts || !dst_lasts) check_not_captured(stream, "a copy between the device and pageable host memory");
  if (src_lasts && dst_lasts) {
    stream.submit(new CopyTask(p));
  } else if (dst_lasts && p.bytes <= kStaged && !stream.idle()) {
    auto staged = std::make_unique<char[]>(p.bytes);
    memcpy(staged.get(), p.src, p.bytes);
    stream.submit(new CopyTask(p, std::move(staged)));
  } else {
    stream.submit(new CopyTask(p));
    stream.drain({});
  }
}

void fill(void* dst, size_t max, int value, size_t bytes) {
  current_context();
  check_no_capture("aclrtMemset");
  char* address = checked_fill(dst, max, bytes);
  if (config().strict) order::host_touches("aclrtMemset", {address, bytes, true, "devPtr"});
  memset(address, value, bytes);
}

void fill_async(void* dst, size_t max, int value, size_t bytes, aclrtStream stream) {
  Stream& target = Stream::launchable(stream);
  char* address = checked_fill(dst, max, bytes);
  if (bytes) target.submit(new FillTask(address, value, bytes));
}

void value_write(void* address, uint64_t value, aclrtStream stream) {
  Stream& target = Stream::launchable(stream);
  target.submit(new ValueTask(ValueTask::Kind::write, checked_number(address), value, 0));
}

void value_wait(void* address, uint64_t value, uint32_t condition, aclrtStream stream) {
  if (condition > ACL_STREAM_WAIT_VALUE_NOR) fail(ACL_ERROR_RT_PARAM_INVALID, "flag %u is no condition", condition);
  Stream& target = Stream::launchable(stream);
  if (config().strict) order::waits_for_all(target);
  target.submit(new ValueTask(ValueTask::Kind::wait, checked_number(address), value, condition));
}

}  // namespace softnpu
