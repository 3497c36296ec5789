// CPU tensors over the device memory that descriptors speak of.
#pragma once

#include "kernels/engine/call.h"

namespace softnpu::kernels {

// The name of argument i, for messages.
const char* argument_name(const Operator& op, size_t i, char (&buffer)[64]);

// A CPU tensor over the kernels' view of the device memory that `t`, which is argument i, describes; `call` gets to
// know its storage. Throws Failure.
Tensor view(const Operator& op, size_t i, const aclTensor& t, Call& call);

}  // namespace softnpu::kernels
