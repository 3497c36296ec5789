// The two phases of an operator call and the executor cache between them (Note [Executor cache] in abi/aclnn.h).
#pragma once

#include <initializer_list>

#include "aclnn.h"
#include "kernels/engine/call.h"

namespace softnpu::kernels {

// A C argument of phase one, as the generated entry point received it.
struct Argument {
  enum class Kind : uint8_t { tensor, tensor_list, scalar, scalar_list, ints, bools, integer, real, dtype, text } kind;
  union {
    const void* pointer;
    int64_t integer;
    double real;
  };
  Argument(const aclTensor* p) : kind(Kind::tensor), pointer(p) {}
  Argument(const aclTensorList* p) : kind(Kind::tensor_list), pointer(p) {}
  Argument(const aclScalar* p) : kind(Kind::scalar), pointer(p) {}
  Argument(const aclScalarList* p) : kind(Kind::scalar_list), pointer(p) {}
  Argument(const aclIntArray* p) : kind(Kind::ints), pointer(p) {}
  Argument(const aclBoolArray* p) : kind(Kind::bools), pointer(p) {}
  Argument(const char* p) : kind(Kind::text), pointer(p) {}
  Argument(aclDataType d) : kind(Kind::dtype), integer(d) {}
  Argument(bool b) : kind(Kind::integer), integer(b) {}
  Argument(int64_t i) : kind(Kind::integer), integer(i) {}
  Argument(uint64_t i) : kind(Kind::integer), integer(static_cast<int64_t>(i)) {}
  Argument(int32_t i) : kind(Kind::integer), integer(i) {}
  Argument(int8_t i) : kind(Kind::integer), integer(i) {}
  Argument(double d) : kind(Kind::real), real(d) {}
  Argument(float d) : kind(Kind::real), real(d) {}
};

// Phase one: checks the arguments, builds the call, keeps it in the cache when the client set a key.
int plan(const Operator& op, std::initializer_list<Argument> arguments, uint64_t* workspace_size,
         aclOpExecutor** executor);

// Phase one of an operator that softnpu has by name only: says why.
int refuse(const Operator& op, std::initializer_list<Argument> arguments, const char* reason);

// Phase two: hands the call to the stream.
int launch(const Operator& op, void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream);

}  // namespace softnpu::kernels
