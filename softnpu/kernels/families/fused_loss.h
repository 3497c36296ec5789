// Cross entropy in one step, or in the parts that a vocabulary spread over several cards needs; and the narrowing of
// logits before sampling. Computed in float32.
#pragma once

#include <string_view>

#include "kernels/families/normalization.h"

namespace softnpu::kernels {

struct CrossEntropy {
  std::string_view reduction;
  int64_t ignore_index;
  double smoothing, zloss_scale;
};
// `zloss` is the scaled square of `lse`, the logarithm of the sum of exponentials; both are zero unless asked for.
void cross_entropy(std::array<Tensor, 4> loss_logs_zloss_lse, const Tensor& input, const Tensor& target,
                   const Optional& weight, const CrossEntropy& how, bool return_zloss);
void cross_entropy_backward(Tensor& grad_input, const Tensor& grad, const Tensor& logs, const Tensor& target,
                            const Optional& weight, const Optional& grad_zloss, const Optional& lse,
                            const CrossEntropy& how);

// Of the logits input * weight^T: the largest of each row, the sum of exp(logit - largest), and what the target has of
// it. A bit of `mask`, highest first, is set for a target outside of [start, end], and for those behind the last.
void linear_max_sum(std::array<Tensor, 5> largest_sum_predicted_mask_target, const Optional& logits,
                    const Tensor& input, const Tensor& weight, const Tensor& target, int64_t start, int64_t end);
void loss_with_max_sum(Tensor& loss, const Optional& softmax, const Tensor& largest, const Tensor& sum,
                       const Tensor& predicted, const Optional& logits);
void linear_loss_backward(Tensor& grad_input, Tensor& grad_weight, const Tensor& grad, const Tensor& input,
                          const Tensor& weight, const Tensor& mask, const Tensor& target, const Optional& largest,
                          const Optional& sum, const Optional& softmax);

// -inf where a token is neither among the k best of its row nor among the best that together have probability p.
void top_k_top_p(Tensor& out, const Tensor& logits, const Optional& p, const Optional& k);

namespace require {
void class_rows(const Tensor& rows, const Tensor& target, const Optional& weight);
void reduction_name(std::string_view reduction);
// One number, or one a row.
inline int64_t loss_size(const Tensor& rows, std::string_view reduction) {
  return reduction == "none" ? rows.size(0) : 1;
}
void vocabulary_rows(const Optional& logits, const Optional& softmax, const Tensor& rows);
void linear_tokens(const Tensor& input, const Tensor& weight, const Tensor& target, const Tensor& mask);
}  // namespace require

}  // namespace softnpu::kernels
