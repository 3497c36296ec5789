// Small helpers for the indexing kernel table.
#pragma once

#include <ATen/Functions.h>

#include <vector>

#include "kernels/engine/call.h"
#include "kernels/engine/require.h"

namespace softnpu::kernels {

// Where `t` is not zero, in memory of its own. ATen counts those places before it writes them down: a mask that another
// stream changes meanwhile would lead it out of its memory.
inline at::Tensor marks(const at::Tensor& t) { return t.scalar_type() == at::kBool ? t.clone() : at::ne(t, 0); }

inline c10::List<std::optional<at::Tensor>> optional_list(const std::vector<at::Tensor>& tensors) {
  c10::List<std::optional<at::Tensor>> list;
  // A client passes an absent index as NULL or as an empty tensor of a type that cannot be an index (float32 was seen).
  for (const auto& t : tensors) {
    const bool absent = !t.defined() || (t.numel() == 0 && t.is_floating_point());
    const bool mask = !absent && (t.scalar_type() == at::kBool || t.scalar_type() == at::kByte);
    list.push_back(absent ? std::nullopt : std::optional<at::Tensor>(mask ? marks(t) : t));
  }
  return list;
}

inline std::vector<at::Tensor> present(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> some;
  for (const auto& t : tensors)
    if (t.defined()) some.push_back(t);
  return some;
}

// at::masked_select with several threads keeps two int64 for every element of the mask; this one for every element
// selected.
inline at::Tensor selected(const at::Tensor& self, const at::Tensor& mask) {
  const auto operands = at::broadcast_tensors({self, marks(mask)});
  return at::index(operands[0].dim() ? operands[0] : operands[0].view(1),
                   {std::optional<at::Tensor>(operands[1].dim() ? operands[1] : operands[1].view(1))});
}

// reduction: 0 replace, 1 add, 2 multiply.
template <class Source>
void scatter(at::Tensor& out, const at::Tensor& self, int64_t dim, const at::Tensor& index, const Source& src,
             int64_t reduction) {
  if (reduction == 0)
    at::scatter_out(out, self, dim, index, src);
  else
    at::scatter_out(out, self, dim, index, src, reduction == 1 ? "add" : "multiply");
}

// aclnnScatterReduce: 1 sum, 2 product, 3 largest, 4 smallest, 5 mean.
inline const char* reduction_name(int64_t reduction) {
  static constexpr const char* kNames[] = {"sum", "prod", "amax", "amin", "mean"};
  TORCH_CHECK(reduction >= 1 && reduction <= 5, "reduction ", reduction, " is not one of 1 (sum) to 5 (mean)");
  return kNames[reduction - 1];
}

inline void split(std::vector<at::Tensor>& out, const at::Tensor& self, at::IntArrayRef sizes, int64_t dim) {
  const auto parts = self.split_with_sizes(sizes, dim);
  TORCH_CHECK(parts.size() == out.size(), "out has ", out.size(), " tensors, split_sizes ", parts.size());
  for (size_t i = 0; i < parts.size(); i++) out[i].copy_(parts[i]);
}

inline void embed(at::Tensor& out, const at::Tensor& weight, const at::Tensor& indices) {
  if (out.numel() == 0) return;
  if (!out.is_contiguous()) {
    out.copy_(at::index_select(weight, 0, indices.flatten()).view(out.sizes()));
    return;
  }
  auto rows = out.view({indices.numel(), weight.size(1)});
  at::index_select_out(rows, weight, 0, indices.flatten());
}

inline void one_hot(at::Tensor& out, const at::Tensor& self, int64_t depth, const at::Tensor& on, const at::Tensor& off,
                    int64_t axis) {
  const auto hits = at::eq(self.unsqueeze(-1), at::arange(depth, self.options())).movedim(-1, axis);
  out.copy_(at::where(hits, on, off));
}

// (values, inverse, counts) into three outputs of data-dependent size, the last two on demand.
inline void set_unique(Call& call, size_t first, const std::tuple<at::Tensor, at::Tensor, at::Tensor>& result,
                       bool inverse, bool counts) {
  call.set_output(first, std::get<0>(result));
  if (inverse) call.set_output(first + 1, std::get<1>(result));
  if (counts) call.set_output(first + 2, std::get<2>(result));
}

// A dim beyond the rank means the flattened tensor: the official client passes 1000 for "none".
inline std::optional<int64_t> dim_or_none(const at::Tensor& self, int64_t dim) {
  return dim >= -self.dim() && dim < self.dim() ? std::optional<int64_t>(dim) : std::nullopt;
}

namespace require {
// `pad` lists what is added before and behind, from the last dimension on.
inline void constant_padded(const at::Tensor& out, const at::Tensor& self, at::IntArrayRef pad) {
  that(pad.size() % 2 == 0 && static_cast<int64_t>(pad.size()) <= 2 * self.dim(), "pad has another number of entries");
  auto sizes = self.sizes().vec();
  for (size_t i = 0; i < pad.size(); i++) {
    int64_t& size = sizes[sizes.size() - 1 - i / 2];
    that(!__builtin_add_overflow(size, pad[i], &size), "pad is too large");
  }
  shape(out, "out", sizes);
}
}  // namespace require

}  // namespace softnpu::kernels
