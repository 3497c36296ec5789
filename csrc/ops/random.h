// What random operators share: the part of a generator's stream that a launch consumes.
#pragma once

#include <ATen/core/Generator.h>

#include <optional>
#include <utility>

#include "runtime/generator.h"
#include "tensor.h"

namespace npu::ops {

using Generator = std::optional<at::Generator>;

// (seed, offset) for filling `t`. See softnpu/kernels/random.h: one counter (four numbers) an element, two elements' worth
// for complex numbers.
inline std::pair<uint64_t, uint64_t> reserve(const Generator& generator, const Tensor& t) {
  return philox_state(generator, 4 * static_cast<uint64_t>(t.numel()) * (t.is_complex() ? 2 : 1));
}

}  // namespace npu::ops
