// Matrix products of quantised numbers, and products in groups of rows as mixtures of experts have them. Products of
// integers are exact; everything else is computed in float32 and rounded once.
#pragma once

#include "kernels/families/quant.h"

namespace softnpu::kernels {

using List = std::vector<Tensor>;

// (x1 x2 + integer bias) * scale * pertoken + other bias, + offset for int8. Blocks of a two-dimensional scale are as
// long as group_size says: three numbers of 16 bits, for rows, columns and the sum.
void quant_matmul(Tensor& out, const Tensor& x1, const Tensor& x2, const std::optional<Tensor>& pertoken,
                  const Tensor& scale, const std::optional<Tensor>& offset, const std::optional<Tensor>& bias,
                  bool transpose1, bool transpose2, int64_t group_size);
void quant_matmul_reduce_sum(Tensor& out, const Tensor& x1, const Tensor& x2, const std::optional<Tensor>& x1_scale,
                             const std::optional<Tensor>& x2_scale);
// x ((weight + offset) * scale) + bias; scales change after `group_size` rows of the weight.
void weight_quant_matmul(Tensor& out, const Tensor& x, const Tensor& weight, const Tensor& scale,
                         const std::optional<Tensor>& offset, const std::optional<Tensor>& quant_scale,
                         const std::optional<Tensor>& quant_offset, const std::optional<Tensor>& bias,
                         int64_t group_size);
// x is quantised by row, or by x_scale; then the product with the weight's rows, without the groups for one matrix.
void quant_matmul_dequant(Tensor& out, const Tensor& x, const Tensor& weight, const Tensor& weight_scale,
                          const std::optional<Tensor>& groups, const std::optional<Tensor>& bias,
                          const std::optional<Tensor>& x_scale, const std::optional<Tensor>& smooth,
                          const std::string& mode);
void quant_convolution(Tensor& out, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                       const Tensor& scale, const std::optional<Tensor>& offset, IntArrayRef strides, IntArrayRef pads,
                       IntArrayRef dilations, int64_t groups);

// Operands of a grouped product. A list is empty where there is none; one tensor with a leading dimension of groups
// stands for a list of them.
struct Grouped {
  const List &x, &weight, &bias, &scale, &offset, &antiquant_scale, &antiquant_offset, &per_token_scale;
};
// The groups, by kind as in groups_of, lie in `rows` and name one of `count`. For `bounds:`, see bounds.h.
void check_groups(const Optional& group_list, int64_t kind, int64_t rows, int64_t count);
int64_t rows_of(const List& x, int64_t group_type);  // what is divided into groups
int64_t count_of(const List& weight);                // of experts
Optional listed(IntArrayRef ends);                   // nothing for an empty list
void grouped_matmul(List& out, const Grouped& operands, const std::optional<Tensor>& group_list, int64_t kind,
                    int64_t group_type, int64_t activation);
void grouped_matmul_add(Tensor& self, const Tensor& x, const Tensor& weight, const Tensor& group_list, int64_t kind);
void grouped_matmul_swiglu_quant(Tensor& out, Tensor& out_scale, const Tensor& x, const Tensor& weight,
                                 const std::optional<Tensor>& bias, const Tensor& weight_scale, const Tensor& x_scale,
                                 const Tensor& group_list, int64_t kind);
void grouped_matmul_finalize_routing(Tensor& out, const Tensor& x, const Tensor& weight,
                                     const std::optional<Tensor>& scale, const std::optional<Tensor>& bias,
                                     const std::optional<Tensor>& pertoken, const Tensor& group_list,
                                     const std::optional<Tensor>& shared_input, const std::optional<Tensor>& logit,
                                     const std::optional<Tensor>& row_index, double shared_weight,
                                     int64_t shared_offset, int64_t kind);

struct Expert {  // one product of npu_ffn with what it is quantised by
  const Tensor& weight;
  const std::optional<Tensor>&bias, &scale, &antiquant_scale, &antiquant_offset;
};
void ffn(Tensor& out, const Tensor& x, const Expert& first, const Expert& second, const std::optional<Tensor>& scale,
         const std::optional<Tensor>& offset, IntArrayRef tokens, bool ends, const std::string& activation);
void transpose_batch_matmul(Tensor& out, const Tensor& x, const Tensor& weight, const std::optional<Tensor>& scale,
                            IntArrayRef perm1, IntArrayRef perm2, int64_t split);
void fused_matmul(Tensor& out, const Tensor& x, const Tensor& x2, const std::optional<Tensor>& bias,
                  const std::optional<Tensor>& x3, const std::string& type);

}  // namespace softnpu::kernels
