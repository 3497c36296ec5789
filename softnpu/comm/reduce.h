// Element types and reductions of collectives, on plain memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hccl.h"
#include "stream_copy.h"

namespace softnpu::comm {

size_t size_of(uint32_t type);  // 0 for a number that is no type
const char* type_name(uint32_t type);
const char* op_name(uint32_t op);

// outputs[j][i] = inputs[0][i] op inputs[1][i] op ... in this order. Outputs may be among the inputs. 16-bit floats are
// accumulated in float and rounded once; NaN wins a maximum and a minimum; integers wrap around.
void reduce(uint32_t type, uint32_t op, const char* const* inputs, size_t input_count, char* const* outputs,
            size_t output_count, size_t elements, Store store = Store::cached);

}  // namespace softnpu::comm
