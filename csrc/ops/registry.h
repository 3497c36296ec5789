// Where generated wrappers register. A wrapper whose aclnn operators the provider lacks is withdrawn when the provider
// is loaded, so that the CPU fallback takes over without a check on the hot path.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>

namespace npu::ops {

// `acl` lists the aclnn names that the wrapper calls, separated by spaces.
void register_op(const char* name, const char* overload, c10::KernelFunction kernel, const char* acl);

template <class F>
void reg(const char* name, const char* overload, F* function, const char* acl) {
  register_op(name, overload, c10::KernelFunction::makeFromUnboxedRuntimeFunction(function), acl);
}

// Hand-written operators: `manual("aten::set_", "source_Storage", &set_storage)`; never withdrawn.
template <class F>
void manual(const char* name, const char* overload, F* function) {
  reg(name, overload, function, "");
}

// Kernels of sparse and nested tensors, which have dispatch keys of their own.
void register_op_as(c10::DispatchKey key, const char* name, const char* overload, c10::KernelFunction kernel);

template <class F>
void reg_as(c10::DispatchKey key, const char* name, const char* overload, F* function) {
  register_op_as(key, name, overload, c10::KernelFunction::makeFromUnboxedRuntimeFunction(function));
}

// The operator has a kernel of the CPU for tensors of this layout: if none is registered here, it is computed there.
void falls_back(c10::DispatchKey key, const char* name, const char* overload);

}  // namespace npu::ops

// Body of registrations that run when the library is loaded: NPU_REGISTER(copy) { manual(...); }
#define NPU_REGISTER(id)                                                                \
  static void npu_register_##id();                                                      \
  [[maybe_unused]] static const bool npu_registered_##id = (npu_register_##id(), true); \
  static void npu_register_##id()
