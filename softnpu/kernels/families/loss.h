// Losses and their gradients that ATen has only as compositions, or with an out= form that resizes its output.
#pragma once

#include "kernels/families/nn.h"

namespace softnpu::kernels {

// Class numbers as ATen takes them: the NPU has int32 ones, too.
inline Tensor classes(const Tensor& target) { return target.scalar_type() == at::kInt ? target.to(at::kLong) : target; }

void l1_loss_backward(Tensor& out, const Tensor& grad_output, const Tensor& self, const Tensor& target,
                      int64_t reduction);
void kl_div_backward(Tensor& out, const Tensor& grad_output, const Tensor& self, const Tensor& target,
                     int64_t reduction, bool log_target);
void kl_div_target_backward(Tensor& out, const Tensor& grad_output, const Tensor& self, const Tensor& target,
                            int64_t reduction, bool log_target);
void binary_cross_entropy_with_logits_backward(Tensor& out, const Tensor& grad_output, const Tensor& self,
                                               const Tensor& target, const Optional& weight, const Optional& pos_weight,
                                               int64_t reduction);
void multilabel_margin_loss(Tensor& out, Tensor& is_target, const Tensor& self, const Tensor& target,
                            int64_t reduction);
void nll_loss2d(Tensor& out, Tensor& total_weight, const Tensor& self, const Tensor& target, const Optional& weight,
                int64_t reduction, int64_t ignore_index);

// CTC's lattice may be wider than the longest target needs: the rest is not written, and not read.
void ctc_loss(at::Tensor& loss, at::Tensor& log_alpha, const std::tuple<at::Tensor, at::Tensor>& result);
at::Tensor ctc_lattice(const at::Tensor& log_alpha, at::IntArrayRef target_lengths);

}  // namespace softnpu::kernels
