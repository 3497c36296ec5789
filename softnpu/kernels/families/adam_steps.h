// Single steps of Adam and AdamW whose numbers are tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace softnpu::kernels {

struct AdamNumbers {
  const at::Tensor &beta1_power, &beta2_power, &lr, &beta1, &beta2, &epsilon;
};
// The powers belong to this step; epsilon comes to the root before it is corrected.
void adam_step(at::Tensor& var, at::Tensor& m, at::Tensor& v, const at::Tensor& grad, const AdamNumbers& numbers,
               bool nesterov);
// The powers belong to the step before. With amsgrad, `largest` holds the largest v so far.
void adamw_step(at::Tensor& var, at::Tensor& m, at::Tensor& v, const at::Tensor& grad, const AdamNumbers& numbers,
                const at::Tensor& weight_decay, const std::optional<at::Tensor>& largest, bool amsgrad, bool maximize);

}  // namespace softnpu::kernels
