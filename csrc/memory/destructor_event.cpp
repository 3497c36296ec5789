#include "memory/destructor_event.h"

#include <exception>

#include "runtime/task_queue.h"

namespace npu {
namespace {

void raise_again(void* payload) {
  auto* stored = *static_cast<std::exception_ptr**>(payload);
  const std::exception_ptr error = *stored;
  delete stored;
  std::rethrow_exception(error);
}

}  // namespace

void record_in_destructor(Event& event, Stream stream) {
  if (task_queue::level() == 0) return event.record(stream);
  std::exception_ptr error;
  try {
    return event.record(stream);
  } catch (...) {
    error = std::current_exception();
  }
  event.record(stream);
  auto* stored = new std::exception_ptr(error);
  task_queue::push(raise_again, &stored, sizeof(stored));
}

}  // namespace npu
