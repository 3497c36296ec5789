// Overflows of kernels, for the float status of a card. See Note [Float status] in runtime/float_status.h.
#pragma once

#include <cstddef>

namespace softnpu::kernels {

class Call;

// Runs the kernel, and reports an overflow where arguments without infinity and NaN gave a result with one. An infinity
// that a tensor or a number brought along hides what else overflows in the same operator.
void run_watched(Call& call);

// For Call::set_output: the kernel that runs has filled part of output i, with elements that it was given.
void note_selection(size_t i) noexcept;

}  // namespace softnpu::kernels
