// What an operator requires of the numbers in its tensors, stated in the tables under `bounds:` and checked when the
// task runs: indices that ATen follows without a look. The task fails with the code of an operator that went wrong on
// the device, as other operators do for indices out of range, and a sentence that names the argument.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace softnpu::kernels::bounds {

using at::IntArrayRef;
using at::Tensor;
using Optional = std::optional<Tensor>;

void within(const Optional& t, const char* name, int64_t least, int64_t most);
// Places in the last `dims` dimensions of `image`, counted along them; -1 for none where that is allowed.
void places(const Tensor& t, const char* name, const Tensor& image, int64_t dims, bool or_none = false);
// Rows that begin at 0 or later, never fall, and end at `most` or before.
void ascending(const Optional& t, const char* name, int64_t most);
// Rows of numbers from 0 that add up to `most` or less.
void lengths_within(const Optional& t, const char* name, int64_t most);
// LAPACK's pivots of a symmetric factorisation: a block of two rows has two negative ones.
void symmetric_pivots(const Tensor& t, const char* name, int64_t rows);
// Of polynomials whose recurrence takes as many steps.
void degrees(const Tensor& t, const char* name);
// The classes of the targets that lengths count; a padded row may hold anything behind them.
void labels(const Tensor& targets, IntArrayRef lengths, int64_t classes);

}  // namespace softnpu::kernels::bounds
