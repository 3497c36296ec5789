#include "context.h"

#include <algorithm>

#include "error.h"
#include "memory.h"
#include "physical.h"
#include "stream.h"

namespace softnpu {

thread_local constinit Thread t_thread;

namespace {

constinit Context g_contexts[kMaxCards];
constinit std::mutex g_open_mutex;

void open_card(int card) {
  Context& context = g_contexts[card];
  if (context.active.load(std::memory_order_acquire)) return;
  std::lock_guard<std::mutex> lock(g_open_mutex);
  if (context.active.load(std::memory_order_acquire)) return;
  open_card_memory(card);
  context.card = card;
  for (auto& parameter : context.parameters) parameter.store(kUnset);
  context.default_stream = Stream::create(context, 0, 0);
  context.active.store(true, std::memory_order_release);
}

}  // namespace

int device_count() { return static_cast<int>(checked_config().visible.size()); }

int card_of_device(int64_t device) {
  const auto& visible = checked_config().visible;
  if (device < 0 || device >= static_cast<int64_t>(visible.size()))
    fail(ACL_ERROR_RT_INVALID_DEVICEID, "device %lld does not exist; there are %zu devices", (long long)device,
         visible.size());
  return visible[device];
}

int device_of_card(int card) {
  const auto& visible = config().visible;
  const auto it = std::find(visible.begin(), visible.end(), card);
  return it == visible.end() ? -1 : static_cast<int>(it - visible.begin());
}

void set_device(int device) {
  const int card = card_of_device(device);
  open_card(card);
  t_thread.context = &g_contexts[card];
}

// Ends the card's streams and frees its memory. Other threads that work on it find themselves without a context.
void reset_device(int device, const Deadline& deadline) {
  const int card = card_of_device(device);
  Context& context = g_contexts[card];
  if (t_thread.context == &context) t_thread.context = nullptr;
  if (!context.active.load()) return;
  for (Stream* stream : streams_of(context)) stream->drain(deadline);
  std::lock_guard<std::mutex> lock(g_open_mutex);
  if (!context.active.load()) return;
  context.active.store(false, std::memory_order_release);
  for (Stream* stream : streams_of(context)) stream->destroy(Stream::Ending::forced, deadline);
  context.default_stream = nullptr;
  release_all_physical(card);
  deallocate_all(card);
}

bool is_open(int card) { return g_contexts[card].active.load(std::memory_order_acquire); }

Context& current_context() {
  Context* context = t_thread.context;
  if (!context || !context->active.load(std::memory_order_relaxed))
    fail(ACL_ERROR_RT_CONTEXT_NULL, "this thread has no device; call aclrtSetDevice first");
  return *context;
}

Stream& default_stream(const Context& context) {
  if (Stream* stream = context.default_stream.load(std::memory_order_acquire)) return *stream;
  fail(ACL_ERROR_RT_CONTEXT_NULL, "card %d was reset by another thread; call aclrtSetDevice first", context.card);
}

Context& checked_context(const void* handle) {
  for (Context& context : g_contexts)
    if (&context == handle && context.active.load(std::memory_order_acquire)) return context;
  fail(ACL_ERROR_RT_INVALID_HANDLE, "context %p is no live context", handle);
}

std::vector<Stream*> streams_of(Context& context) {
  std::lock_guard<std::mutex> lock(context.mutex);
  return context.streams;
}

Context* open_context(int card) { return is_open(card) ? &g_contexts[card] : nullptr; }

}  // namespace softnpu
