// What the generated code of npu:: operators (tools/codegen/custom.py) is made of.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <string>

#include "aclnn/op.h"
#include "ops/register.h"
#include "ops/tensor.h"

namespace npu::ops {

// A kernel made from a row of a npu:: operator. Nothing takes its place where the provider lacks `acl`: calls say so.
template <class F>
void custom(const char* name, const char* overload, F* function, const char* acl) {
  register_manual(name, overload, kernel_of(function), acl);
}

// A kernel for an operator that is only there to say, whatever it is called with, why it cannot be.
torch::CppFunction refused(const char* name, std::string reason);

inline const Tensor& first(at::TensorList list) {
  TORCH_CHECK(!list.empty(), "the list of tensors is empty");
  return list.front();
}

inline std::optional<Tensor> maybe(const Tensor& t) { return t.defined() ? std::optional<Tensor>(t) : std::nullopt; }

// ---- Nodes of the graph. An argument is kept in a type that owns its data.

template <class Kept, class T>
Kept owned(const T& value) {
  if constexpr (std::is_same_v<Kept, std::vector<int64_t>>) {
    return Kept(value.begin(), value.end());
  } else if constexpr (std::is_same_v<Kept, std::vector<c10::SymInt>>) {
    return Kept(value.begin(), value.end());
  } else if constexpr (std::is_same_v<Kept, std::optional<std::vector<int64_t>>> ||
                       std::is_same_v<Kept, std::optional<std::vector<c10::SymInt>>>) {
    return value.has_value() ? Kept(std::in_place, value->begin(), value->end()) : std::nullopt;
  } else {
    return Kept(value);
  }
}

std::vector<torch::autograd::SavedVariable> save_all(at::TensorList tensors);
std::vector<Tensor> unpack_all(const std::vector<torch::autograd::SavedVariable>& saved);

// A result that can be differentiated becomes one of the node's; others, and those that this call does not have, do
// not.
inline void record(const Tensor& result, const c10::intrusive_ptr<torch::autograd::Node>& node) {
  if (result.defined() && torch::autograd::isDifferentiableType(result.scalar_type()))
    torch::autograd::set_history(result, node);
}
// The gradient of a result: zeros where nothing depends on it, undefined if the call did not have it.
Tensor gradient(const torch::autograd::Node& node, const torch::autograd::variable_list& grads, size_t place);

// Gradients of `N` inputs, which begin at place `at`: one tensor, or the first of a tuple.
template <size_t N, class... T>
void store(torch::autograd::variable_list& result, size_t at, const std::tuple<T...>& gradients) {
  static_assert(N <= sizeof...(T), "more inputs than gradients");
  [&]<size_t... i>(std::index_sequence<i...>) {
    ((result[at + i] = std::get<i>(gradients)), ...);
  }(std::make_index_sequence<N>());
}
template <size_t N>
void store(torch::autograd::variable_list& result, size_t at, const Tensor& gradient) {
  static_assert(N == 1, "one gradient for several inputs");
  result[at] = gradient;
}

// Gradients of all inputs, some of which are lists of tensors.
template <class... T>
void store_all(torch::autograd::variable_list& result, const std::tuple<T...>& gradients) {
  torch::autograd::variable_list flat;
  const auto add = [&](const auto& each) {
    if constexpr (std::is_same_v<std::decay_t<decltype(each)>, Tensor>)
      flat.push_back(each);
    else
      flat.insert(flat.end(), each.begin(), each.end());
  };
  std::apply([&](const auto&... each) { (add(each), ...); }, gradients);
  TORCH_INTERNAL_ASSERT(flat.size() == result.size());
  result = std::move(flat);
}

// Forward-mode derivatives would be lost without a word.
void check_no_tangent(const char* op, const Tensor& t);
inline void check_no_tangent(const char* op, at::TensorList tensors) {
  for (const Tensor& t : tensors) check_no_tangent(op, t);
}
inline void check_no_tangent(const char* op, const std::optional<Tensor>& t) {
  if (t) check_no_tangent(op, *t);
}
template <class... T>
void check_no_tangent(const char* op, const Tensor& first, const T&... rest)
  requires(sizeof...(T) > 0)
{
  check_no_tangent(op, first);
  (check_no_tangent(op, rest), ...);
}

}  // namespace npu::ops
