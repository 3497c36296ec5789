#include "runtime/gil.h"

#include <atomic>

namespace npu {
namespace {

std::atomic<CallWithoutGil> g_without_gil{nullptr};

}  // namespace

void set_without_gil(CallWithoutGil function) noexcept { g_without_gil.store(function, std::memory_order_release); }

void call_without_gil(void (*body)(void*), void* argument) {
  const auto function = g_without_gil.load(std::memory_order_acquire);
  function ? function(body, argument) : body(argument);
}

}  // namespace npu
