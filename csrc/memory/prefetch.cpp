#include "memory/prefetch.h"

#include "acl/check.h"
#include "acl/runtime_symbol.h"
#include "runtime/stream.h"
#include "runtime/task_queue.h"

namespace npu {
namespace {

struct Range {
  const void* address;
  size_t bytes;
  aclrtStream stream;
};

void run(void* payload) {
  const Range range = *static_cast<Range*>(payload);
  auto* const hint = reinterpret_cast<decltype(&::aclrtCmoAsync)>(acl::runtime_symbol("aclrtCmoAsync"));
  if (hint == nullptr) return;
  NPU_CHECK(hint(const_cast<void*>(range.address), range.bytes, ACL_RT_CMO_TYPE_PREFETCH, range.stream));
}

}  // namespace

void prefetch(const void* address, size_t bytes) {
  const Range range{address, bytes, current_stream_handle()};
  task_queue::push(run, &range, sizeof range);
}

}  // namespace npu
