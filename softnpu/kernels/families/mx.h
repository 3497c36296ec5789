// Quantisation to MX blocks, and to 8 bits with a float32 scale. The formats are in mx_codec.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "kernels/families/mx_codec.h"

namespace softnpu::kernels {

using at::Tensor;
using Optional = std::optional<Tensor>;

namespace mx {

// Numbers of four bits in pairs, the first one in the low half of a byte. Codes are bytes, one each.
Tensor packed(const Tensor& codes);
Tensor unpacked(const Tensor& pairs);
// float32 of quantised blocks along the last dimension; `scale` has the pairs of their scales. Also for matrix
// products.
Tensor dequantized(const Tensor& x, const Tensor& scale, int64_t block_size);
Tensor hif_decoded(const Tensor& codes);

// float8_e4m3fn, float8_e5m2 and hifloat8: the largest number, and numbers rounded to the type as its bytes.
bool is_floating_byte(at::ScalarType type);
double most_of(at::ScalarType type);  // int8's, too
void write_bytes(Tensor& y, const Tensor& values);

}  // namespace mx

// `x` in blocks of `block` along `axis`, which is divided into groups by their `ends` where there are some.
void mx_quantize(Tensor& y, Tensor& scale, const Tensor& x, int64_t axis, int64_t block, std::string_view round_mode,
                 const mx::Scaling& scaling, const Optional& ends = std::nullopt);
void mx_quantize_squares(Tensor& y, Tensor& scale1, Tensor& scale2, const Tensor& x, std::string_view round_mode,
                         const mx::Scaling& scaling);
void mx_quantize_levels(Tensor& y, Tensor& level0, Tensor& level1, const Tensor& x, int64_t outer, int64_t inner,
                        std::string_view round_mode);
void mx_dequantize(Tensor& y, const Tensor& x, const Tensor& scale);

// Between any two types; numbers of 4 bits and hifloat8 saturate.
void cast(Tensor& out, const Tensor& self);

// The sum that a gated unit makes of x, in float32.
struct GatedUnit {
  int64_t dim;
  bool left;
  int64_t mode;
  double limit, alpha, bias;
};
Tensor gated(const Tensor& x, const GatedUnit& gate);
// The groups, where they divide `axis`: those of rows say nothing about blocks within a row.
inline Optional grouped_along(const Tensor& x, int64_t axis, const Optional& group_index) {
  return axis == -1 || axis == x.dim() - 1 ? std::nullopt : group_index;
}
// Ends of groups from their lengths, or as they are.
Optional group_ends(const Optional& group_index, int64_t mode);
// The sum in float32; `out` has it rounded.
Tensor added(Tensor& out, const Tensor& a, const Tensor& b);
// RMS norm in float32 with an offset; `rstd` is written where it has elements.
Tensor normed(Tensor& rstd, const Tensor& x, const Tensor& gamma, const Optional& beta, double eps);

// Blocks of `rows` by `columns` in the last two dimensions; the rows in groups by their ends where there are some.
void block_quantize(Tensor& y, Tensor& scale, const Tensor& x, const Optional& ends, double min_scale, int64_t rows,
                    int64_t columns, double maximum);
void quantize_with_max(Tensor& y, Tensor& amax, const Tensor& x, const Tensor& scale);
// hifloat8 of a gated unit, with a scale for each group of rows that brings the largest number to `maximum`.
void gate_and_quantize(Tensor& y, Tensor& scale, Tensor& origin, const Tensor& x, const Optional& weight,
                       const Optional& lengths, double limit, double maximum);

namespace require {

void mx_input(const Tensor& x, std::string_view round_mode);
// `y` has the numbers of `sizes`, in pairs where it has four bits; of an MX type.
void mx_numbers(const Tensor& y, const char* name, at::IntArrayRef sizes);
void mx_scales(const Tensor& scale, const char* name, at::IntArrayRef sizes, int64_t axis, int64_t block,
               const Optional& groups = std::nullopt);
void block_scales(const Tensor& scale, const Tensor& x, int64_t rows, int64_t columns, const Optional& groups);
void byte_numbers(const Tensor& y, const Tensor& x);
void castable(const Tensor& out, const Tensor& self);  // as many numbers; float4 has two in a byte
std::vector<int64_t> gated_sizes(const Tensor& x, int64_t dim);

}  // namespace require
}  // namespace softnpu::kernels
