// Dropout with packed masks: one bit an element, in whole blocks of 128.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu::ops {

using at::Tensor;

inline c10::SymInt packed_bytes(const c10::SymInt& elements) { return (elements + 127) / 128 * 16; }
void check_probability(const char* op, double p);
void check_packed_mask(const char* op, const Tensor& t, const Tensor& mask, double p);
// Draws from the default generator of the card.
void packed_dropout(const Tensor& input, double p, const Tensor& out, const Tensor& mask);

}  // namespace npu::ops
