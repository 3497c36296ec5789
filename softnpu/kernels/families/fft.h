// Spectra in the forms that CANN's transforms write.
#pragma once

#include <ATen/Functions.h>

#include <string_view>

namespace softnpu::kernels {

// Into complex numbers, or into pairs of real ones.
inline void out_parts(at::Tensor& out, const at::Tensor& spectrum) {
  out.copy_(out.is_complex() ? spectrum : at::view_as_real(spectrum));
}

inline std::string_view spectrum_norm(int64_t mode) { return mode == 2 ? "forward" : mode == 3 ? "ortho" : "backward"; }

}  // namespace softnpu::kernels
