// Compositions: kernels made of operators that every provider has. One takes over from the wrapper of a table's row if
// the provider lacks an operator of the row: see Note [Operators that the provider lacks]. Used where kernels are
// registered. A hand-written kernel asks has_op itself: it may be running when the provider is loaded.
#pragma once

#include "ops/register.h"

namespace npu::ops {

void register_composition(const char* name, const char* overload, Kernel kernel);

// It may meet an absent operator as well, and is then computed on the CPU.
template <class F>
void composed(const char* name, const char* overload, F* function) {
  auto kernel = std::make_unique<HandWritten<F>>(function, name, overload);
  register_composition(name, overload,
                       {c10::KernelFunction::makeFromUnboxedFunctor<false, HandWritten<F>>(std::move(kernel)),
                        c10::impl::CppSignature::make<F>()});
}

}  // namespace npu::ops
