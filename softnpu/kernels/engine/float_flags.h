// The floating-point control register of a thread: rounding mode and what becomes of denormal numbers
// (torch.set_flush_denormal). Kept as the processor has it, because <fenv.h> leaves flushing out.
#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#elif !defined(__aarch64__)
#error "softnpu runs on x86_64 and aarch64: say here how this processor keeps its floating-point flags"
#endif

namespace softnpu::kernels {

inline uint64_t float_flags() noexcept {
#if defined(__x86_64__)
  return _mm_getcsr();
#else
  uint64_t flags;
  asm volatile("mrs %0, fpcr" : "=r"(flags));
  return flags;
#endif
}

inline void set_float_flags(uint64_t flags) noexcept {
#if defined(__x86_64__)
  _mm_setcsr(static_cast<unsigned int>(flags));
#else
  asm volatile("msr fpcr, %0" ::"r"(flags));
#endif
}

}  // namespace softnpu::kernels
