// The CPU fallback: operators without a kernel here are computed on the host, announced once and counted.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "aclnn/missing_op.h"

namespace npu::ops {

// The CPU fallback for one call: of a hand-written kernel that met MissingOp, or by on_cpu below.
class FallbackOf {
 public:
  FallbackOf(const char* name, const char* overload);
  FallbackOf(const char* name, const char* overload, const MissingOp& missing);  // rethrows it within a fallback
  ~FallbackOf();
  FallbackOf(const FallbackOf&) = delete;
  FallbackOf& operator=(const FallbackOf&) = delete;
  const c10::OperatorHandle& op() const { return op_; }
  static const c10::KernelFunction& kernel();

 private:
  c10::OperatorHandle op_;
};

// Computes a call on the CPU because of the types of its arguments: `cpu:` of a table's row. The operator's kernel is
// given for its signature.
template <class R, class... A>
R on_cpu(R (*)(A...), const char* name, const char* overload, std::type_identity_t<A>... arguments) {
  const FallbackOf fallback(name, overload);
  return fallback.kernel().template call<R, A...>(fallback.op(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                  std::forward<A>(arguments)...);
}

// Counts a call, with its arguments on the stack, and warns once. Throws where the fallback is forbidden, or an
// argument is on the CPU.
void announce_fallback(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

std::vector<std::pair<std::string, uint64_t>> fallback_counts();  // operator name -> calls, most frequent first
void reset_fallback_counts();

}  // namespace npu::ops
