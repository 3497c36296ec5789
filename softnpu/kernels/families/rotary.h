// Rotary position embedding. A mode says which two numbers of a row are turned together, and where the result goes:
// 0 half (i, i + n/2), 1 interleave (2i, 2i + 1), 2 quarter (half, for each half of the row), 3 interleave-half (2i and
// 2i + 1 into i and i + n/2).
#pragma once

#include "kernels/families/normalization.h"

namespace softnpu::kernels {

// x cos + rotated(x) sin, computed in float32. `out` may be `x`.
void rotary(Tensor& out, const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode);
// The same with the rotation as a matrix.
void rotary_by_matrix(Tensor& out, const Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& matrix);
// `dcos` and `dsin` are added up to the shapes of `cos` and `sin`; without `x` they are not written.
void rotary_backward(Tensor& dx, Tensor& dcos, Tensor& dsin, const Tensor& grad, const Tensor& cos, const Tensor& sin,
                     const Optional& x, int64_t mode);
int64_t rotary_mode(std::string_view name);
// [tokens, heads * head_size] turned by the rows of `cache`, cosines and then sines, at the tokens' positions. With
// positions of three axes, `sections` says how many frequencies follow each; `interleave` deals them out in turn.
void rotary_from_cache(Tensor& query_out, Tensor& key_out, const Tensor& positions, const Tensor& query,
                       const Tensor& key, const Tensor& cache, IntArrayRef sections, int64_t head_size, bool neox,
                       bool interleave);

namespace require {
using softnpu::kernels::rotary_mode;
// Cosines and sines that broadcast against `x`, whose rows the mode can divide.
void rotary_tables(const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode);
void rotary_cache(const Tensor& positions, const Tensor& query, const Tensor& key, const Tensor& cache,
                  IntArrayRef sections, int64_t head_size);
}  // namespace require

}  // namespace softnpu::kernels
