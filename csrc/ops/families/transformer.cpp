// The fast path of torch.nn.TransformerEncoder and MultiheadAttention in evaluation: upstream's functions, which are
// written in terms of other operators, for dense and nested tensors, and the parts of them that have a kernel for each
// device.
#include <ATen/ATen.h>
#include <ATen/ops/_native_multi_head_attention_native.h>
#include <ATen/ops/_transformer_encoder_layer_fwd_native.h>

#include <cmath>

#include "aclnn/op.h"
#include "ops/families/forms.h"
#include "ops/register.h"

namespace npu::ops {

namespace {

// (batch, length, 3 x size) to three of (batch, heads, length, size of a head), with bias, queries scaled.
std::tuple<Tensor, Tensor, Tensor> transform_bias_rescale_qkv(const Tensor& qkv, const Tensor& bias, int64_t heads) {
  const auto dense = qkv.is_nested() ? at::nested_to_padded_tensor(qkv, 0) : qkv;
  CardGuard guard(dense);
  check_same_device("_transform_bias_rescale_qkv", {&dense, &bias});
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == dense.size(2), "_transform_bias_rescale_qkv: qkv_bias has shape ",
              bias.sizes(), ", expected ", dense.size(2), " numbers");
  const auto spec = heads_of(dense, heads);
  auto q = make(spec), k = make(spec), v = make(spec);
  NPU_EXEC(aclnnTransformBiasRescaleQkv, dense, bias, heads, q, k, v);
  return {q, k, v};
}

// mask_type: 0 (length, length), 1 (batch, length) of keys, 2 the shape of the scores. True hides; a row that sees
// nothing is zero.
Tensor spread(const Tensor& mask, const Tensor& scores, std::optional<int64_t> mask_type) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be a boolean tensor");
  if (mask_type == 1) return mask.view({scores.size(0), 1, 1, scores.size(3)}).expand_as(scores);
  return mask.expand_as(scores);
}

Tensor masked_softmax(const Tensor& self, const Tensor& mask, std::optional<int64_t> dim,
                      std::optional<int64_t> mask_type) {
  const auto hidden = spread(mask, self, mask_type);
  return self.masked_fill(hidden, -INFINITY).softmax(dim.value_or(self.dim() - 1)).masked_fill_(hidden, 0);
}

Tensor masked_softmax_backward(const Tensor& grad, const Tensor& output, const Tensor& mask,
                               std::optional<int64_t> dim) {
  return at::_softmax_backward_data(grad, output, dim.value_or(output.dim() - 1), output.scalar_type())
      .masked_fill_(mask.expand_as(output), 0);
}

Tensor addmm_activation(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const c10::Scalar& beta,
                        const c10::Scalar& alpha, bool use_gelu) {
  const auto sum = at::addmm(self, mat1, mat2, beta, alpha);
  return use_gelu ? at::gelu(sum) : sum.relu();
}

Tensor& addmm_activation_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const c10::Scalar& beta,
                             const c10::Scalar& alpha, bool use_gelu, Tensor& out) {
  return write_out(out, addmm_activation(self, mat1, mat2, beta, alpha, use_gelu));
}

}  // namespace

NPU_REGISTER(transformer) {
  constexpr auto kNested = c10::DispatchKey::NestedTensorPrivateUse1;
  manual("aten::_transformer_encoder_layer_fwd", "", &at::native::transformer_encoder_layer_forward);
  manual("aten::_native_multi_head_attention", "", &at::native::native_multi_head_attention_cpu);
  reg_as(kNested, "aten::_native_multi_head_attention", "", &at::native::native_multi_head_attention_cpu);
  manual("aten::_transform_bias_rescale_qkv", "", &transform_bias_rescale_qkv);
  reg_as(kNested, "aten::_transform_bias_rescale_qkv", "", &transform_bias_rescale_qkv);
  manual("aten::_masked_softmax", "", &masked_softmax);
  manual("aten::_masked_softmax_backward", "", &masked_softmax_backward);
  manual("aten::_addmm_activation", "", &addmm_activation);
  manual("aten::_addmm_activation", "out", &addmm_activation_out);
}

}  // namespace npu::ops
