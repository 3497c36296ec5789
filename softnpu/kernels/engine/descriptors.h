// SOFTNPU_STRICT: what phase one demands of descriptors beyond what this device needs to compute, because a card reads
// them where softnpu looks at sizes and strides alone. The measure is what the official client sends.
#pragma once

#include <string_view>

#include "kernels/engine/call.h"

namespace softnpu::kernels {

// Throws Failure(161002) that names the argument unless
//  - the format is the one of the rank (NCL, NCHW, NCDHW for 3, 4, 5; else ND), or a private one;
//  - there are at most 8 dimensions;
//  - the storage lies in live memory, all of it, and the offset inside;
//  - the memory is aligned to the type;
//  - no element of an output is written twice.
void check_descriptor(std::string_view argument, const aclTensor& t, bool written);

// Throws Failure(161002) when the lists of a foreach operator have more tensors than the official client sends at once.
void check_list_lengths(const Call& call);

}  // namespace softnpu::kernels
