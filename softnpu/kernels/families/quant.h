// Quantisation to int8 and int4, and what leads back. Eight int4 numbers lie in an int32, the first in the lowest bits.
// Numbers are computed in float32 and rounded once, to even.
#pragma once

#include "kernels/families/mx.h"
#include "kernels/families/nn.h"

namespace softnpu::kernels {

// ---- int4

Tensor unpacked(const Tensor& t, int64_t dim);  // int8 numbers, eight times as many along `dim`
Tensor packed(const Tensor& numbers);           // along the last dimension
// A matrix for a product over `k` numbers, as int8: `t` itself, or unpacked along the dimension that `k` asks for.
Tensor integers(const Tensor& t, int64_t k);

// ---- scales

// float32 of a scale; the hardware's form is an int64 with the float's bits, and an offset of nine bits above them.
Tensor scale_of(const Tensor& t);
std::optional<Tensor> offset_of(const std::optional<Tensor>& offset, const Tensor& scale);
// `values` along dimension `axis` of `x`: one number, one for each place, or shaped already.
Tensor along(const Tensor& values, const Tensor& x, int64_t axis);
// Rounded to the integers of `out`; an int32 that is an eighth as long takes int4.
void round_into(const Tensor& out, const Tensor& x);
void trans_quant_param(Tensor& out, const Tensor& scale, const std::optional<Tensor>& offset, bool nearest);

// ---- groups of rows

struct Rows {
  int64_t group, begin, end;
};
// By ends (kind 0), sizes (1), or pairs of group and size (2). None reaches behind `rows`.
std::vector<Rows> groups_of(const Tensor& list, int64_t kind, int64_t rows);
// Rows of the float32 `x` by the rows of `factors`, as groups say; without groups by one row of them.
Tensor by_groups(const Tensor& x, const std::optional<Tensor>& factors, const std::optional<Tensor>& groups,
                 int64_t kind);

// ---- operators

void quantize(Tensor& out, const Tensor& x, const Tensor& scales, const std::optional<Tensor>& zero_points,
              int64_t axis, bool divide);
void anti_quant(Tensor& out, const Tensor& x, const Tensor& scale, const std::optional<Tensor>& offset);
// Each token by its largest number, or all channels or everything by theirs. With an offset from smallest to largest.
// Without one also to float8 and hifloat8; `maximum` stands for the largest number of the type where it is not 0.
void dynamic_quant(Tensor& out, Tensor& scale, const std::optional<Tensor>& offset, const Tensor& x,
                   const std::optional<Tensor>& smooth, const std::optional<Tensor>& groups,
                   const std::string& mode = "pertoken", double maximum = 0);
void group_quant(Tensor& out, const Tensor& x, const Tensor& scale, const Tensor& group_index,
                 const std::optional<Tensor>& offset);
void gelu_quant(Tensor& out, const std::optional<Tensor>& out_scale, const Tensor& x,
                const std::optional<Tensor>& scale, const std::optional<Tensor>& offset, const std::string& approximate,
                const std::string& mode);
void swiglu_quant(Tensor& out, Tensor& scale, const Tensor& x, const std::optional<Tensor>& smooth,
                  const std::optional<Tensor>& offsets, const std::optional<Tensor>& groups, bool left,
                  const std::string& mode, int64_t kind);
void dequant_swiglu_quant(Tensor& out, Tensor& scale, const Tensor& x, const std::optional<Tensor>& weight_scale,
                          const std::optional<Tensor>& activation_scale, const std::optional<Tensor>& bias,
                          const std::optional<Tensor>& quant_scale, const std::optional<Tensor>& quant_offset,
                          const std::optional<Tensor>& groups, const GatedUnit& gate, const std::string& mode);
void dequant_bias(Tensor& out, const Tensor& x, const Tensor& weight_scale,
                  const std::optional<Tensor>& activation_scale, const std::optional<Tensor>& bias);
// updates[i] into self[i], from place indices[i] of the axis on.
void quant_scatter(Tensor& self, const Tensor& indices, const Tensor& updates, const Tensor& scales,
                   const std::optional<Tensor>& zero_points, int64_t axis, int64_t quant_axis);

// ---- norms, of float32

Tensor normed(const Tensor& x, const Tensor& gamma, const std::optional<Tensor>& beta, double eps);
void add_rms_norm_quant(std::array<Tensor, 2> out, Tensor& sum, const Tensor& x1, const Tensor& x2, const Tensor& gamma,
                        std::array<Optional, 2> scales, std::array<Optional, 2> zero_points, const Optional& beta,
                        double eps, bool divide);
void add_rms_norm_dynamic_quant(std::array<Tensor, 2> out, std::array<Tensor, 2> scales, Tensor& sum, const Tensor& x1,
                                const Tensor& x2, const Tensor& gamma, std::array<Optional, 2> smooth,
                                const Optional& beta, double eps, const std::vector<uint8_t>& mask);
void rms_norm_quant(Tensor& out, const Tensor& x, const Tensor& gamma, const Tensor& scale, const Optional& offset,
                    const Optional& beta, double eps, bool divide);

}  // namespace softnpu::kernels
