// What orders work, told to torch's trace of GPUs, whose callbacks are in torch.npu._gpu_trace: the sanitizer
// (torch_npu/npu/_sanitizer.py) listens. Called where Python's lock may be taken: with no lock held that its owner may
// want. One load while nobody listens.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/impl/GPUTrace.h>

#include <cstdint>
#include <type_traits>

namespace npu::gpu_trace {

using Table = c10::impl::PyInterpreterVTable;

// tell(&Table::trace_gpu_event_record, event, stream): handles and addresses go as numbers.
template <class... Args>
void tell(void (Table::*what)(c10::DeviceType, Args...) const, std::type_identity_t<Args>... args) {
  const c10::impl::PyInterpreter* const listener = c10::impl::GPUTrace::get_trace();
  if (C10_UNLIKELY(listener != nullptr)) (listener->operator->()->*what)(c10::DeviceType::PrivateUse1, args...);
}

inline uintptr_t number(const void* handle) { return reinterpret_cast<uintptr_t>(handle); }

}  // namespace npu::gpu_trace
