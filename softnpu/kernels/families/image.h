// Small helpers for the image kernel table.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <tuple>
#include <vector>

namespace softnpu::kernels {

inline std::optional<double> scale(double given) { return given > 0 ? std::optional<double>(given) : std::nullopt; }

inline std::array<bool, 2> two_flags(const std::vector<uint8_t>& mask) {
  TORCH_CHECK(mask.size() == 2, "output_mask has ", mask.size(), " entries, expected 2");
  return {mask[0] != 0, mask[1] != 0};
}

// Gradients that were not asked for are undefined.
inline void write_pair(at::Tensor& a, at::Tensor& b, const std::tuple<at::Tensor, at::Tensor>& result) {
  if (std::get<0>(result).defined()) a.copy_(std::get<0>(result));
  if (std::get<1>(result).defined()) b.copy_(std::get<1>(result));
}

}  // namespace softnpu::kernels
