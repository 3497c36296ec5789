// The arguments of an operator's first phase in a recording. See Note [Recording] in runtime/record.h.
#pragma once

#include <initializer_list>

#include "kernels/engine/plan.h"

namespace softnpu::kernels {

// A tensor is {"t": sizes, "s": strides, "o": offset, "d": data type, "m": format, "n": its storage's sizes, "p": a
// number that tensors over the same memory share}, a scalar {"S": data type, "v": value}; lists and arrays are lists.
void note_arguments(const Operator& op, std::initializer_list<Argument> arguments);

}  // namespace softnpu::kernels
