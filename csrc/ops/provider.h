// What operators ask of the provider and of who watches a call, before they choose between ways to send it.
//
// Note [What is sent]
// ~~~~~~~~~~~~~~~~~~~
// softnpu takes more than CANN may, so what goes to another provider is what the official client is seen to send
// (tools/calls). Mostly that is one path for both. Where softnpu has a shorter one (a mask as an index, a copy of
// bytes, wide indices), on_softnpu() chooses it.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu::ops {

bool on_softnpu();

// Whether nobody but the card sees a call with this tensor: no tracing, no transform of functorch, no forward-mode
// differentiation.
bool is_direct(const at::Tensor& t);

}  // namespace npu::ops
