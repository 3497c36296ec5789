#pragma once

#include <c10/util/Exception.h>

namespace npu::ops {

// Thrown by NPU_EXEC of an operator that the provider lacks. See Note [Operators that the provider lacks].
class MissingOp : public c10::NotImplementedError {
 public:
  explicit MissingOp(const char* op);
  const char* const op;
};

}  // namespace npu::ops
