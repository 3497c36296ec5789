// Small helpers for the indexing kernel table.
#pragma once

#include <ATen/Functions.h>

#include <vector>

namespace softnpu::kernels {

inline c10::List<std::optional<at::Tensor>> optional_list(const std::vector<at::Tensor>& tensors) {
  c10::List<std::optional<at::Tensor>> list;
  // A client passes an absent index as NULL or as an empty tensor of any type but bool.
  for (const auto& t : tensors)
    list.push_back(t.defined() ? std::optional<at::Tensor>(t) : std::nullopt);
  return list;
}

inline std::vector<at::Tensor> present(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> some;
  for (const auto& t : tensors)
    if (t.defined()) some.push_back(t);
  return some;
}

// reduction: 0 replace, 1 add, 2 multiply.
template <class Source>
void scatter(at::Tensor& out, const at::Tensor& self, int64_t dim, const at::Tensor& index, const Source& src, int64_t reduction) {
  if (reduction == 0) at::scatter_out(out, self, dim, index, src);
  else at::scatter_out(out, self, dim, index, src, reduction == 1 ? "add" : "multiply");
}

}  // namespace softnpu::kernels
