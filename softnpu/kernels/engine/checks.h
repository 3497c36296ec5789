// The checks of phase one that abi/aclnn.yaml states for an operator (shape=..., outputs).
#pragma once

#include "kernels/engine/call.h"

namespace softnpu::kernels {

// Throws Failure(161002) that names the operator and the argument.
void check(Call& call);

}  // namespace softnpu::kernels
