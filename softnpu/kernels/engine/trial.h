// Finds out in phase one whether a kernel takes the types of a call. Asked by plan().
#pragma once

#include "kernels/engine/call.h"

namespace softnpu::kernels {

// Note [Trial run]: ATen refuses a type where its kernel dispatches on it, that is when the task runs, which is too
// late for the caller. So the first call of an operator with a new combination of types is tried at once, on zeros of
// the same shapes outside the device's memory; on ones, if bounds.h has no use for zeros. Only complaints about types
// count; zeros may be wrong inputs for other reasons. Large calls, and those without elements, which ATen accepts for
// every type, are not tried: there the task itself fails, as before.
//
// Throws Failure(161002) with ATen's own sentence.
void try_types(const Call& call);

}  // namespace softnpu::kernels
