// The CPU fallback: operators without a kernel here are computed on the host, announced once and counted.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "aclnn/missing_op.h"

namespace npu::ops {

// The CPU fallback for one call of a hand-written kernel that met MissingOp.
class FallbackOf {
 public:
  FallbackOf(const char* name, const char* overload, const MissingOp& missing);  // rethrows it within a fallback
  ~FallbackOf();
  FallbackOf(const FallbackOf&) = delete;
  FallbackOf& operator=(const FallbackOf&) = delete;
  const c10::OperatorHandle& op() const { return op_; }
  static const c10::KernelFunction& kernel();

 private:
  c10::OperatorHandle op_;
};

// Counts a call, with its arguments on the stack, and warns once. Throws where the fallback is forbidden, or an
// argument is on the CPU.
void announce_fallback(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

std::vector<std::pair<std::string, uint64_t>> fallback_counts();  // operator name -> calls, most frequent first
void reset_fallback_counts();

}  // namespace npu::ops
