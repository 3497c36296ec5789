// Where kernels register, and what becomes of those whose aclnn operators the provider lacks.
//
// Note [Operators that the provider lacks]: a wrapper made from a table calls exactly the operators of its row. It is
// withdrawn when the provider is loaded if one of them is absent. A composition of operators that every provider has
// takes over if there is one (composition.h), else torch's own, or the CPU fallback. What a hand-written kernel calls
// may depend on its arguments, so it stays; NPU_EXEC of an absent operator throws MissingOp, which the registered
// kernel catches, and this call is computed on the CPU. A kernel therefore launches what may be absent before it
// changes anything that the CPU is to read. Neither has a check on the hot path.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ops/fallback.h"

namespace npu::ops {

// A kernel and its C++ signature, which the dispatcher compares with that of the operator's other kernels, upstream's.
struct Kernel {
  c10::KernelFunction function;
  c10::impl::CppSignature signature;
};

template <class F>
Kernel kernel_of(F* function) {
  return {c10::KernelFunction::makeFromUnboxedRuntimeFunction(function), c10::impl::CppSignature::make<F>()};
}

// A wrapper made from a table. `acl` lists the aclnn names that it calls, separated by spaces.
void register_op(const char* name, const char* overload, Kernel kernel, const char* acl);

template <class F>
void reg(const char* name, const char* overload, F* function, const char* acl) {
  register_op(name, overload, kernel_of(function), acl);
}

template <class F>
class HandWritten;

template <class R, class... A>
class HandWritten<R(A...)> final : public c10::OperatorKernel {
 public:
  HandWritten(R (*function)(A...), const char* name, const char* overload)
      : function_(function), name_(name), overload_(overload) {}

  R operator()(A... arguments) {
    try {
      return function_(arguments...);
    } catch (const MissingOp& missing) {
      const FallbackOf fallback(name_, overload_, missing);
      return fallback.kernel().template call<R, A...>(fallback.op(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                      std::forward<A>(arguments)...);
    }
  }

 private:
  R (*function_)(A...);
  const char *name_, *overload_;
};

// Operators that are never withdrawn: hand-written ones, `manual("aten::set_", "source_Storage", &set_storage)`, and
// those of the namespace npu. `acl` is for reports: what the function needs on the npu.
void register_manual(const char* name, const char* overload, Kernel kernel, const char* acl);

template <class F>
void manual(const char* name, const char* overload, F* function, const char* acl = "") {
  auto kernel = std::make_unique<HandWritten<F>>(function, name, overload);
  register_manual(name, overload,
                  {c10::KernelFunction::makeFromUnboxedFunctor<false, HandWritten<F>>(std::move(kernel)),
                   c10::impl::CppSignature::make<F>()},
                  acl);
}

// The name that the provider lacks, if the operator's wrapper was withdrawn for it; else empty.
std::string withdrawn_for(const c10::OperatorName& name);

// Kernels of sparse and nested tensors, which have dispatch keys of their own.
void register_op_as(c10::DispatchKey key, const char* name, const char* overload, c10::KernelFunction kernel,
                    std::optional<c10::impl::CppSignature> signature = std::nullopt);

template <class F>
void reg_as(c10::DispatchKey key, const char* name, const char* overload, F* function) {
  register_op_as(key, name, overload, c10::KernelFunction::makeFromUnboxedRuntimeFunction(function),
                 c10::impl::CppSignature::make<F>());
}

// The operator has a kernel of the CPU for tensors of this layout: if none is registered here, it is computed there.
void falls_back(c10::DispatchKey key, const char* name, const char* overload);

}  // namespace npu::ops

// Body of registrations that run when the library is loaded: NPU_REGISTER(copy) { manual(...); }
#define NPU_REGISTER(id)                                                                \
  static void npu_register_##id();                                                      \
  [[maybe_unused]] static const bool npu_registered_##id = (npu_register_##id(), true); \
  static void npu_register_##id()
