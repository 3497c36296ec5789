#include "runtime/capture.h"

#include <algorithm>

#include "acl/check.h"
#include "acl/library.h"
#include "runtime/stream.h"
#include "runtime/task_queue.h"
#include "runtime/watchers.h"

namespace npu::captures {

std::atomic<int> g_active{0};

namespace {

struct All {
  std::mutex mutex;
  std::vector<Capture*> captures;
  int level = 0;  // of the task queue, before the first
};

All& all() {
  static auto* all = new All;  // leaked: threads may outlive static destruction
  return *all;
}

}  // namespace

void begin(Capture& capture) {
  std::lock_guard lock(all().mutex);
  if (all().captures.empty()) {
    all().level = task_queue::level();
    if (all().level > 0) task_queue::set_level(0);
  }
  all().captures.push_back(&capture);
  g_active.fetch_add(1);
  watchers::set(watchers::capture, true);
}

void end(Capture& capture) noexcept {
  std::lock_guard lock(all().mutex);
  std::erase(all().captures, &capture);
  g_active.fetch_sub(1);
  if (!all().captures.empty()) return;
  watchers::set(watchers::capture, false);
  if (all().level == 0) return;
  try {
    task_queue::set_level(all().level);
  } catch (...) {  // an error of earlier work, which nothing queued since can have left
  }
}

Capture* of_stream(aclrtStream stream) {
  if (!any()) return nullptr;
  auto status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  aclmdlRI model = nullptr;
  NPU_CHECK(acl::api().aclmdlRICaptureGetInfo(stream, &status, &model));
  if (status == ACL_MODEL_RI_CAPTURE_STATUS_NONE) return nullptr;
  std::lock_guard lock(all().mutex);
  for (Capture* capture : all().captures)
    if (capture->model == model) return capture;
  return nullptr;
}

Capture* of_current_stream() { return any() ? of_stream(current_stream_handle()) : nullptr; }

void note_task() {
  if (Capture* capture = of_current_stream()) capture->has_tasks.store(true, std::memory_order_relaxed);
}

Relaxed::Relaxed() noexcept {
  const auto exchange = any() ? acl::api().aclmdlRICaptureThreadExchangeMode : nullptr;
  if (!exchange) return;
  before_ = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
  changed_ = exchange(&before_) == 0;
}

Relaxed::~Relaxed() {
  if (changed_) acl::api().aclmdlRICaptureThreadExchangeMode(&before_);
}

}  // namespace npu::captures
