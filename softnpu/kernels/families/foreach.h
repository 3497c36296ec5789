// Operators over lists of tensors (one call of an ATen operator for every element) and steps of optimizers.
#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <vector>

#include "kernels/families/elementwise.h"

namespace softnpu::kernels {

template <class T>
T& item(std::vector<T>& list, size_t i) {
  return list[i];
}
template <class T>
const T& item(const std::vector<T>& list, size_t i) {
  return list[i];
}
template <class T>
T& item(T& value, size_t) {
  return value;
}

template <class T>
void check_length(const std::vector<T>& list, size_t length) {
  TORCH_CHECK(list.size() == length, "a list has ", list.size(), " elements, another ", length);
}
template <class T>
void check_length(const T&, size_t) {}

// Calls op(arguments...) for each element of `first`. Arguments that are lists give their element, others stay.
template <class Op, class First, class... Rest>
void each(Op op, std::vector<First>& first, Rest&&... rest) {
  (check_length(rest, first.size()), ...);
  for (size_t i = 0; i < first.size(); i++) op(first[i], item(rest, i)...);
}

// A number beside the tensors of a list, as an operand that does not promote. Beside float32 alone it is float32 from
// the start: ATen would convert it again for every tensor.
inline at::Tensor number(const at::Scalar& s, const std::vector<at::Tensor>& beside) {
  const bool plain = !s.isComplex() && std::all_of(beside.begin(), beside.end(),
                                                   [](const at::Tensor& t) { return t.scalar_type() == at::kFloat; });
  if (!plain) return number(s);
  auto t = at::detail::scalar_tensor_static(s, at::kFloat, at::kCPU);
  t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}
inline std::vector<at::Tensor> numbers(const std::vector<at::Scalar>& scalars, const std::vector<at::Tensor>& beside) {
  std::vector<at::Tensor> tensors;
  for (const auto& s : scalars) tensors.push_back(number(s, beside));
  return tensors;
}
// The numbers of a tensor that holds one for each element.
inline std::vector<at::Scalar> scalars_of(const at::Tensor& values) {
  std::vector<at::Scalar> scalars;
  for (int64_t i = 0; i < values.numel(); i++) scalars.push_back(values[i].item());
  return scalars;
}

// A learning rate: a tensor on the card, or a number.
inline double rate(const std::optional<at::Tensor>& tensor, double number) {
  return tensor.has_value() ? tensor->item<double>() : number;
}

inline void power(const at::Tensor& exponent, const at::Scalar& base, at::Tensor& out) {
  at::pow_out(out, base, exponent);
}
inline void norm(const at::Tensor& self, const at::Scalar& ord, at::Tensor& out) {
  at::linalg_vector_norm_out(out, self, ord, std::nullopt, false, out.scalar_type());
}

inline void round_off(const at::Tensor& self, const at::Scalar& mode, at::Tensor& out) {
  switch (mode.toInt()) {  // the values that the official client passes
    case 1:
      at::round_out(out, self);
      return;
    case 2:
      at::floor_out(out, self);
      return;
    case 3:
      at::ceil_out(out, self);
      return;
    case 5:
      at::trunc_out(out, self);
      return;
    case 7:
      at::frac_out(out, self);
      return;
    default:
      TORCH_CHECK(false, "mode ", mode, " is not one of 1 round, 2 floor, 3 ceil, 5 trunc, 7 frac");
  }
}

// One tensor's step of AdamW; `step` is the number of steps made before.
inline void adamw(at::Tensor& self, at::Tensor& exp_avg, at::Tensor& exp_avg_sq,
                  const std::optional<at::Tensor>& max_exp_avg_sq, at::Tensor& grad, at::Tensor& step, double lr,
                  double beta1, double beta2, double weight_decay, double eps, bool amsgrad, bool maximize) {
  std::vector<at::Tensor> largest;
  if (amsgrad) largest.push_back(max_exp_avg_sq.value());
  at::_fused_adamw_({self}, {grad}, {exp_avg}, {exp_avg_sq}, largest, {step.to(at::kFloat) + 1}, lr, beta1, beta2,
                    weight_decay, eps, amsgrad, maximize);
}

}  // namespace softnpu::kernels
