// SOFTNPU_STRICT=1: what the chip that softnpu poses as is known to refuse, from softnpu/soc_limits.yaml. Phase one
// asks.
#pragma once

#include "kernels/engine/call.h"

namespace softnpu::kernels {

// Throws Failure(161002) that names operator, argument, type, chip and the source of the knowledge.
void check_limits(const Call& call);

}  // namespace softnpu::kernels
