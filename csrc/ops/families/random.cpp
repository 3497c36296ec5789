// Random operators: the host reserves a range of the generator's stream, the device computes from (seed, offset).
#include <ATen/ATen.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>

#include "aclnn/op.h"
#include "ops/families/random.h"
#include "ops/provider.h"
#include "ops/register.h"
#include "ops/rules.h"
#include "ops/tensor.h"

namespace npu::ops {

namespace {

namespace templates = at::native::templates;

// Upstream's templates check and split the arguments, the same for every device, and call these. Their parameter is the
// generator's class, which is looked up by philox_state() here.
template <class>
struct Uniform {
  void operator()(at::TensorIteratorBase& iterator, double from, double to, const Generator& generator) const {
    const Tensor self(iterator.tensor(0));
    if (const auto state = reserve_captured(generator, self)) {
      NPU_EXEC(aclnnInplaceUniformTensor, self, from, to, state->seed, state->offset, state->behind);
      return;
    }
    const auto [seed, offset] = reserve(generator, self);
    NPU_EXEC(aclnnInplaceUniform, self, from, to, static_cast<int64_t>(seed), static_cast<int64_t>(offset));
  }
};

template <class>
struct Normal {
  void operator()(const Tensor& self, double mean, double std, const Generator& generator) const {
    TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point(), "\"normal_\" not implemented for '", self.scalar_type(), "'");
    if (const auto state = reserve_captured(generator, self)) {
      NPU_EXEC(aclnnInplaceNormalTensor, self, mean, std, state->seed, state->offset, state->behind);
      return;
    }
    const auto [seed, offset] = reserve(generator, self);
    NPU_EXEC(aclnnInplaceNormal, self, mean, std, static_cast<int64_t>(seed), static_cast<int64_t>(offset));
  }
};

template <class>
struct Integers {
  void operator()(at::TensorIteratorBase& iterator, uint64_t range, int64_t from, const Generator& generator) const {
    fill(iterator, from, static_cast<int64_t>(static_cast<uint64_t>(from) + range), generator);
  }
  // All 64 bits: an empty range.
  void operator()(at::TensorIteratorBase& iterator, const Generator& generator) const {
    fill(iterator, 0, 0, generator);
  }

 private:
  static void fill(at::TensorIteratorBase& iterator, int64_t from, int64_t to, const Generator& generator) {
    const Tensor self(iterator.tensor(0));
    if (const auto state = reserve_captured(generator, self)) {
      NPU_EXEC(aclnnInplaceRandomTensor, self, from, to, state->seed, state->offset, state->behind);
      return;
    }
    const auto [seed, offset] = reserve(generator, self);
    NPU_EXEC(aclnnInplaceRandom, self, from, to, seed, offset);
  }
};

// In a capture: the device has no Bernoulli operator that reads its state there, but it has uniform numbers.
template <class Probability>
bool bernoulli_captured(const Tensor& self, const Probability& p, const Generator& generator) {
  if (C10_LIKELY(!captures::of_current_stream())) return false;
  auto numbers = at::empty(self.sizes(), self.options().dtype(at::kFloat));
  numbers.uniform_(0, 1, generator);
  self.copy_(numbers < p);
  return true;
}

template <class>
struct Bernoulli {
  void operator()(const Tensor& self, double p, const Generator& generator) const {
    if (C10_UNLIKELY(captures::any()) && bernoulli_captured(self, at::Scalar(p), generator)) return;
    const auto [seed, offset] = reserve(generator, self);
    NPU_EXEC(aclnnInplaceBernoulli, self, p, seed, offset);
  }
  void operator()(const Tensor& self, const Tensor& p, const Generator& generator) const {
    TORCH_CHECK_NOT_IMPLEMENTED(p.is_floating_point(), "\"bernoulli_\" not implemented for probabilities of type '",
                                p.scalar_type(), "'");
    p.expand(self.sizes());  // raises, in upstream's words
    if (C10_UNLIKELY(captures::any()) && bernoulli_captured(self, p, generator)) return;
    const auto [seed, offset] = reserve(generator, self);
    // Other types than floating ones are drawn in the type of `p`, as the official client does.
    const auto drawn = self.is_floating_point() ? self : empty(self.sizes(), p.scalar_type());
    NPU_EXEC(aclnnInplaceBernoulliTensor, drawn, on_device(p, p.scalar_type()), seed, offset);
    if (!drawn.is_same(self)) self.copy_(drawn);
  }
};

Tensor& uniform_(Tensor& self, double from, double to, Generator generator) {
  CardGuard guard(self);
  return templates::uniform_impl_<Uniform, void>(self, from, to, std::move(generator));
}

Tensor& normal_(Tensor& self, double mean, double std, Generator generator) {
  CardGuard guard(self);
  return templates::normal_impl_<Normal, void>(self, mean, std, std::move(generator));
}

// In a capture: the device has no operator for these that reads its state there, but it has standard normal numbers.
// softnpu computes in double precision, so the results are those of an eager call.
template <class Mean, class Std>
bool normal_captured(const Tensor& out, const Mean& mean, const Std& std, const Generator& generator) {
  if (C10_LIKELY(!captures::any()) || !captures::of_current_stream()) return false;
  auto numbers = at::empty(out.sizes(), out.options().dtype(on_softnpu() ? at::kDouble : float_type(out)));
  numbers.normal_(0, 1, generator);
  out.copy_(numbers.mul_(std).add_(mean));
  return true;
}

// Mean or standard deviation, or both, are tensors. Complex numbers are upstream's composition.
template <class Mean, class Std, class Launch>
Tensor& draw_normal(Tensor& out, at::IntArrayRef shape, const Mean& mean, const Std& std, Generator generator,
                    const Launch& launch) {
  if (out.is_complex()) return templates::normal_out_impl<Normal, void>(out, mean, std, std::move(generator));
  TORCH_CHECK_NOT_IMPLEMENTED(out.is_floating_point(), "\"normal_\" not implemented for '", out.scalar_type(), "'");
  at::native::resize_output(out, shape);
  if (out.numel() == 0 || normal_captured(out, mean, std, generator)) return out;
  const auto [seed, offset] = reserve(generator, out);
  launch(static_cast<int64_t>(seed), static_cast<int64_t>(offset));
  return out;
}

Tensor& normal_tensor_float_out(const Tensor& mean, double std, Generator generator, Tensor& out) {
  CardGuard guard(out);
  check_same_device("normal", {&mean, &out});
  CHECK_NORMAL_STD(std);
  return draw_normal(
      out, at::infer_size(mean.sizes(), out.sizes()), mean, std, std::move(generator),
      [&](int64_t seed, int64_t offset) { NPU_EXEC(aclnnNormalTensorFloat, mean, std, seed, offset, out); });
}

Tensor& normal_float_tensor_out(double mean, const Tensor& std, Generator generator, Tensor& out) {
  CardGuard guard(out);
  check_same_device("normal", {&std, &out});
  CHECK_NORMAL_TENSOR_STD(std);
  return draw_normal(out, std.sizes(), mean, std, std::move(generator), [&](int64_t seed, int64_t offset) {
    NPU_EXEC(aclnnNormalFloatTensor, mean, std, seed, offset, out);
  });
}

Tensor& normal_tensor_tensor_out(const Tensor& mean, const Tensor& std, Generator generator, Tensor& out) {
  CardGuard guard(out);
  check_same_device("normal", {&mean, &std, &out});
  CHECK_NORMAL_TENSOR_STD(std);
  return draw_normal(
      out, at::infer_size(mean.sizes(), std.sizes()), mean, std, std::move(generator),
      [&](int64_t seed, int64_t offset) { NPU_EXEC(aclnnNormalTensorTensor, mean, std, seed, offset, out); });
}

Tensor normal_tensor_float(const Tensor& mean, double std, Generator generator) {
  auto out = at::empty_like(mean, at::MemoryFormat::Contiguous);
  return normal_tensor_float_out(mean, std, std::move(generator), out);
}

Tensor normal_float_tensor(double mean, const Tensor& std, Generator generator) {
  auto out = at::empty_like(std, at::MemoryFormat::Contiguous);
  return normal_float_tensor_out(mean, std, std::move(generator), out);
}

Tensor normal_tensor_tensor(const Tensor& mean, const Tensor& std, Generator generator) {
  auto out = at::empty(at::infer_size(mean.sizes(), std.sizes()), mean.options());
  return normal_tensor_tensor_out(mean, std, std::move(generator), out);
}

Tensor normal_float_float(double mean, double std, at::IntArrayRef size, Generator generator,
                          std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                          std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  CHECK_NORMAL_STD(std);
  auto out = at::empty(size, dtype, layout, device, pin_memory, std::nullopt);
  if (!out.is_floating_point() || out.numel() == 0 || captures::any())
    return out.normal_(mean, std, std::move(generator));
  CardGuard guard(out);
  const auto [seed, offset] = reserve(generator, out);
  NPU_EXEC(aclnnNormalFloatFloat, mean, std, static_cast<int64_t>(seed), static_cast<int64_t>(offset), out);
  return out;
}

Tensor& random_from_to(Tensor& self, int64_t from, std::optional<int64_t> to, Generator generator) {
  CardGuard guard(self);
  return templates::random_from_to_impl<Integers, void>(self, from, to, std::move(generator));
}

Tensor& random_to(Tensor& self, int64_t to, Generator generator) {
  return random_from_to(self, 0, to, std::move(generator));
}
Tensor& random_(Tensor& self, Generator generator) {
  return random_from_to(self, 0, std::nullopt, std::move(generator));
}

Tensor& bernoulli_float(Tensor& self, double p, Generator generator) {
  CardGuard guard(self);
  return templates::bernoulli_impl_<Bernoulli, void>(self, p, std::move(generator));
}

Tensor& bernoulli_tensor(Tensor& self, const Tensor& p, Generator generator) {
  CardGuard guard(self);
  return templates::bernoulli_impl_<Bernoulli, void>(self, p, std::move(generator));
}

Tensor& bernoulli_out(const Tensor& self, Generator generator, Tensor& out) {
  CardGuard guard(out);
  return templates::bernoulli_out_impl<Bernoulli, void>(out, self, std::move(generator));
}

Tensor& randperm_out(int64_t n, Generator generator, Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  at::native::check_supported_max_int_with_precision(n, at::empty({0}, out.scalar_type()));
  CardGuard guard(out);
  out.resize_({n});
  if (n == 0) return out;
  const auto [seed, offset] = reserve(generator, out);
  NPU_EXEC(aclnnRandperm, n, seed, offset, out);
  return out;
}

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  CardGuard guard(input);
  if (!train.value_or(true) || p == 0) return {input.clone(), at::ones_like(input, at::kBool)};
  TORCH_CHECK(0 <= p && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  TORCH_CHECK(input.is_floating_point() || input.is_complex(),
              "result type Float can't be cast to the desired output type ", input.scalar_type());
  auto mask = empty(input.sizes(), at::kBool);
  bernoulli_float(mask, 1 - p, std::nullopt);
  auto out = at::empty_like(input);
  NPU_EXEC(aclnnMaskedScale, input, mask, p == 1 ? 0.0 : 1 / (1 - p), out);
  return {out, mask};
}

}  // namespace

NPU_REGISTER(random) {
  manual("aten::uniform_", "", &uniform_);
  manual("aten::normal_", "", &normal_);
  manual("aten::normal", "float_float", &normal_float_float);
  manual("aten::normal", "Tensor_float", &normal_tensor_float);
  manual("aten::normal", "float_Tensor", &normal_float_tensor);
  manual("aten::normal", "Tensor_Tensor", &normal_tensor_tensor);
  manual("aten::normal", "Tensor_float_out", &normal_tensor_float_out);
  manual("aten::normal", "float_Tensor_out", &normal_float_tensor_out);
  manual("aten::normal", "Tensor_Tensor_out", &normal_tensor_tensor_out);
  manual("aten::random_", "from", &random_from_to);
  manual("aten::random_", "to", &random_to);
  manual("aten::random_", "", &random_);
  manual("aten::bernoulli_", "float", &bernoulli_float);
  manual("aten::bernoulli_", "Tensor", &bernoulli_tensor);
  manual("aten::bernoulli", "out", &bernoulli_out);
  manual("aten::randperm", "generator_out", &randperm_out);
  manual("aten::native_dropout", "", &native_dropout);
}

}  // namespace npu::ops
