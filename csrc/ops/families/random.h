// What random operators share: the part of a generator's stream that a launch consumes.
#pragma once

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Generator.h>

#include <optional>
#include <utility>

#include "ops/tensor.h"
#include "runtime/generator.h"

namespace npu::ops {

using Generator = std::optional<at::Generator>;

// (seed, offset) for a number of each element of `t`. See softnpu/kernels/families/random.h: one counter (four numbers)
// an element, two elements' worth for complex numbers.
inline std::pair<uint64_t, uint64_t> draw(const Generator& generator, const Tensor& t) {
  TORCH_CHECK(!generator.has_value() || !generator->defined() || !generator->device().is_privateuseone() ||
                  generator->device() == t.device(),
              "Expected a generator of device ", t.device(), " but found one of ", generator->device());
  return philox_state(generator, 4 * static_cast<uint64_t>(t.numel()) * (t.is_complex() ? 2 : 1));
}

// What draw() reserves, on the card; nothing unless the current stream is being captured.
inline std::optional<CapturedState> draw_captured(const Generator& generator, const Tensor& t) {
  if (C10_LIKELY(!captures::any())) return std::nullopt;
  return captured_philox_state(generator, 4 * static_cast<uint64_t>(t.numel()) * (t.is_complex() ? 2 : 1));
}

// The same for filling `t`, no two elements of which may be one.
inline std::pair<uint64_t, uint64_t> reserve(const Generator& generator, const Tensor& t) {
  at::assert_no_internal_overlap(t);
  return draw(generator, t);
}

inline std::optional<CapturedState> reserve_captured(const Generator& generator, const Tensor& t) {
  if (C10_LIKELY(!captures::any())) return std::nullopt;
  at::assert_no_internal_overlap(t);
  return draw_captured(generator, t);
}

}  // namespace npu::ops
