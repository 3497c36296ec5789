// Random operators: the host reserves a range of the generator's stream, the device computes from (seed, offset).
#include <ATen/ATen.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/native/Resize.h>

#include "exec.h"
#include "random.h"
#include "registry.h"
#include "tensor.h"

namespace npu::ops {

namespace {

Tensor& uniform_(Tensor& self, double from, double to, Generator generator) {
  CardGuard guard(self);
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point() || self.is_complex(), "\"uniform_\" not implemented for '", self.scalar_type(), "'");
  TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
  if (self.numel() == 0) return self;
  const auto [seed, offset] = reserve(generator, self);
  NPU_EXEC(aclnnInplaceUniform, self, from, to, static_cast<int64_t>(seed), static_cast<int64_t>(offset));
  return self;
}

Tensor& normal_(Tensor& self, double mean, double std, Generator generator) {
  CardGuard guard(self);
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point() || self.is_complex(), "\"normal_\" not implemented for '", self.scalar_type(), "'");
  TORCH_CHECK(std >= 0.0, "normal_ expects std >= 0.0, but found std=", std);
  if (self.numel() == 0) return self;
  const auto [seed, offset] = reserve(generator, self);
  NPU_EXEC(aclnnInplaceNormal, self, mean, std, static_cast<int64_t>(seed), static_cast<int64_t>(offset));
  return self;
}

Tensor normal_tensor_float(const Tensor& mean, double std, Generator generator) {
  CardGuard guard(mean);
  auto out = at::empty_like(mean, at::MemoryFormat::Contiguous);
  return normal_(out, 0, std, generator).add_(mean);
}

Tensor normal_float_tensor(double mean, const Tensor& std, Generator generator) {
  CardGuard guard(std);
  auto out = at::empty_like(std, at::MemoryFormat::Contiguous);
  return normal_(out, 0, 1, generator).mul_(std).add_(mean);
}

Tensor& normal_tensor_float_out(const Tensor& mean, double std, Generator generator, Tensor& out) {
  at::native::resize_output(out, at::infer_size(mean.sizes(), out.sizes()));
  return normal_(out, 0, std, std::move(generator)).add_(mean);
}

Tensor& normal_float_tensor_out(double mean, const Tensor& std, Generator generator, Tensor& out) {
  at::native::resize_output(out, at::infer_size(std.sizes(), out.sizes()));  // upstream broadcasts with what was given
  return normal_(out, 0, 1, std::move(generator)).mul_(std).add_(mean);
}

Tensor& normal_tensor_tensor_out(const Tensor& mean, const Tensor& std, Generator generator, Tensor& out) {
  at::native::resize_output(out, at::infer_size(mean.sizes(), std.sizes()));
  return normal_(out, 0, 1, std::move(generator)).mul_(std).add_(mean);
}

Tensor normal_tensor_tensor(const Tensor& mean, const Tensor& std, Generator generator) {
  CardGuard guard(mean);
  auto out = at::empty(at::infer_size(mean.sizes(), std.sizes()), mean.options());
  return normal_(out, 0, 1, generator).mul_(std).add_(mean);
}

Tensor& fill_integers(Tensor& self, int64_t from, int64_t to, const Generator& generator) {
  if (self.numel() == 0) return self;
  const auto [seed, offset] = reserve(generator, self);
  NPU_EXEC(aclnnInplaceRandom, self, from, to, seed, offset);
  return self;
}

Tensor& random_from_to(Tensor& self, int64_t from, std::optional<int64_t> to, Generator generator) {
  CardGuard guard(self);
  if (to.has_value()) {
    TORCH_CHECK(from < *to, "random_ expects 'from' to be less than 'to', but got from=", from, " >= to=", *to);
    at::native::templates::check_from_to_in_range(from, *to - 1, self.dtype());
    return fill_integers(self, from, *to, generator);
  }
  // Without `to`: up to the largest value the type counts exactly; an empty range asks for all 64 bits.
  const auto type = self.scalar_type();
  int64_t last = type == at::kBool ? 1 : type == at::kByte ? 255 : type == at::kChar ? 127 : type == at::kShort ? 32767
               : type == at::kInt ? 2147483647 : type == at::kHalf ? 1 << 11 : type == at::kBFloat16 ? 1 << 8
               : type == at::kFloat ? 1 << 24 : type == at::kDouble ? int64_t{1} << 53 : std::numeric_limits<int64_t>::max();
  if (from == std::numeric_limits<int64_t>::min()) return fill_integers(self, 0, 0, generator);
  return fill_integers(self, from, static_cast<int64_t>(static_cast<uint64_t>(last) + 1), generator);
}

Tensor& random_to(Tensor& self, int64_t to, Generator generator) { return random_from_to(self, 0, to, std::move(generator)); }
Tensor& random_(Tensor& self, Generator generator) { return random_from_to(self, 0, std::nullopt, std::move(generator)); }

void check_probability(double p) { TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p); }

Tensor& bernoulli_float(Tensor& self, double p, Generator generator) {
  check_probability(p);
  CardGuard guard(self);
  if (self.numel() == 0) return self;
  const auto [seed, offset] = reserve(generator, self);
  NPU_EXEC(aclnnInplaceBernoulli, self, p, seed, offset);
  return self;
}

Tensor& bernoulli_tensor(Tensor& self, const Tensor& p, Generator generator) {
  CardGuard guard(self);
  if (self.numel() == 0) return self;
  const auto [seed, offset] = reserve(generator, self);
  NPU_EXEC(aclnnInplaceBernoulliTensor, self, on_device(p, p.scalar_type()), seed, offset);
  return self;
}

Tensor& bernoulli_out(const Tensor& self, Generator generator, Tensor& out) {
  out.resize_(self.sizes());
  at::assert_no_internal_overlap(out);
  return bernoulli_tensor(out, self, std::move(generator));
}

Tensor& randperm_out(int64_t n, Generator generator, Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
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
  auto mask = empty(input.sizes(), at::kBool);
  bernoulli_float(mask, 1 - p, std::nullopt);
  auto out = at::empty_like(input, at::MemoryFormat::Contiguous);
  NPU_EXEC(aclnnMaskedScale, input, mask, p == 1 ? 0.0 : 1 / (1 - p), out);
  return {out, mask};
}

}  // namespace

NPU_REGISTER(random) {
  manual("aten::uniform_", "", &uniform_);
  manual("aten::normal_", "", &normal_);
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
