// Operators of the interface before aclnn (aclopCompileAndExecute). Their tables give signatures under `operators:`; a
// row becomes a call like those of aclnn operators, whose kernel sees inputs, outputs and attributes as its arguments.
#pragma once

#include <vector>

#include "kernels/engine/call.h"

namespace softnpu::kernels {

// What the generator knows of such an operator beside its Operator; one static object each, which registers itself.
struct LegacyOperator {
  // Of the arguments in their order. Attributes come last.
  enum class Kind : uint8_t {
    input,
    optional,
    inputs,
    output,
    boolean,
    integer,
    real,
    text,
    dtype,
    bools,
    ints,
    reals
  };
  struct Parameter {
    Kind kind;
    Value otherwise;  // of an attribute that a client may leave out; without a value it may not
  };

  LegacyOperator(const Operator& op, std::vector<Parameter> parameters);

  const Operator& op;
  const std::vector<Parameter> parameters;
};

}  // namespace softnpu::kernels
