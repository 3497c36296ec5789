// Matrix products of float8, hifloat8 and float4 numbers with their scales, products that are quantised, and adapters.
// Sums are float32; a result is rounded once.
#pragma once

#include "kernels/families/mx.h"
#include "kernels/families/quant.h"

namespace softnpu::kernels {

// float32 of numbers of any type; of an MX type with blocks of 32 along the last dimension where `scale` has pairs.
Tensor numbers_of(const Tensor& t);
bool is_mx(const Optional& scale);
// float32 of [rows, k] by [k, columns], each with its scales: a float32 number or row of them, or MX pairs along k.
Tensor quant_product(const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Optional& x2_scale);

void quant_matmul_add(Tensor& self, const Tensor& x1, const Tensor& x2, const Optional& x1_scale,
                      const Tensor& x2_scale);
void grouped_quant_matmul_add(Tensor& self, const Tensor& x1, const Tensor& x2, const Optional& x1_scale,
                              const Tensor& x2_scale, const Tensor& group_list, int64_t kind);
// Rows of float4 with scales of 512 and of 32 numbers.
struct DualLevel {
  Tensor numbers, level0, level1;
};
void dual_level_matmul(Tensor& out, const DualLevel& x1, const DualLevel& x2, const Optional& bias);
// p1 x p2 for each matrix of x, to int4 with a scale for each matrix, or to MX blocks of float4.
void flat_quant(Tensor& out, Tensor& scale, const Tensor& x, const Tensor& p1, const Tensor& p2, double clip,
                double maximum);
// [m, batch, k] by [batch, k, n], or [batch, n, k] where it is turned, to [m, batch, n].
void transpose_quant_matmul(Tensor& out, const Tensor& x1, const Tensor& x2, const Optional& x1_scale,
                            const Optional& x2_scale, bool turned);
void quant_matmul_gelu(Tensor& out, const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                       const Optional& bias, const std::string& approximate);
// Adds x A B of the adapter that indices name for each row to a slice of its columns; behind the last there is none.
void add_lora(Tensor& out, const Tensor& self, const Tensor& x, const Tensor& weight_b, const Tensor& indices,
              const Optional& weight_a, int64_t layer, double scale, int64_t offset, int64_t width);

namespace require {

void quant_pair(const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Tensor& x2_scale,
                std::optional<int64_t> groups);
// Of numbers that are not integers: types and scales that belong together, MX scales for blocks along the sum.
void matmul_scales(const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Tensor& x2_scale);
void dual_level(const Tensor& x1, const Tensor& x2, const Tensor& x1_level0, const Tensor& x2_level0,
                const Tensor& x1_level1, const Tensor& x2_level1);
void kronecker(const Tensor& x, const Tensor& p1, const Tensor& p2, const Tensor& out, const Tensor& scale);
void transposed_quant(const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Optional& x2_scale,
                      at::IntArrayRef perm1, at::IntArrayRef perm2, at::IntArrayRef perm_y, const Tensor& out);
void matmul_gelu(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                 const Optional& bias, const std::string& approximate, const Tensor& out);
void lora(const Tensor& self, const Tensor& x, const Tensor& weight_b, const Tensor& indices, const Optional& weight_a,
          int64_t layer, int64_t offset, int64_t width);

}  // namespace require
}  // namespace softnpu::kernels
