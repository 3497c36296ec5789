// Scaled dot product attention through upstream's overrideable hook: one fused operator, forward and backward.
//
// Note [Attention]
// ~~~~~~~~~~~~~~~~
// The fused way is taken where the CPU takes its own (shapes, masks, no dropout) and for the types that the operator
// has. It stands for flash, memory-efficient and overrideable attention alike: the switches of torch.nn.attention allow
// it with any of the three. Under functorch (vmap, jvp) the plain way is taken, whose operators have all the rules. The
// operator wants
//  - a mask to add ("pse") of full size in its last two dimensions, added to scores that are scaled: pse_type 0, which
//    the second version of the operator has;
//  - its operands with heads before the sequence (BNSD) or after it (BSND), as a projection leaves them; any strides
//  do;
//  - for causal attention from the first row (sparse_mode 2) a fixed triangle of 2048 x 2048 that hides.
// It gives the maximum and the sum of each row's softmax, eight times over, which its backward operator takes.
// torch.nn.functional.scaled_dot_product_attention, which stands at the autograd key, keeps both by way of
// npu::npu_fusion_attention. Upstream's hook, which remains for masks, tracing and whoever calls it, keeps one number,
// their logarithmic sum; the backward operator takes it as a maximum with the sum 1, which is the same softmax.
#include <ATen/ATen.h>
#include <ATen/SDPBackend.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include "acl/check.h"
#include "acl/library.h"
#include "aclnn/op.h"
#include "ops/calls.h"
#include "ops/provider.h"
#include "ops/register.h"
#include "ops/tensor.h"
#include "runtime/device.h"

namespace npu::ops {

namespace {

constexpr int64_t kRepeats = 8;       // of the softmax statistics
constexpr int64_t kTriangle = 2048;   // the size of the mask of sparse_mode 2
constexpr int64_t kAfterScaling = 0;  // pse_type
constexpr int64_t kAllTokens = std::numeric_limits<int32_t>::max();

// The order of dimensions that costs no copy of the operands.
class Layout {
 public:
  explicit Layout(std::initializer_list<const Tensor*> operands)
      : sequence_first_(std::all_of(operands.begin(), operands.end(), [](const Tensor* t) {
          return t->dim() == 4 && !t->is_contiguous() && t->transpose(1, 2).is_contiguous();
        })) {}
  const char* name() const { return sequence_first_ ? "BSND" : "BNSD"; }
  // From (batch, heads, sequence, size) to the operator's order; view() is the way back.
  Tensor given(const Tensor& t) const { return sequence_first_ ? t.transpose(1, 2) : t; }
  Tensor view(const Tensor& t) const { return sequence_first_ ? t.transpose(1, 2) : t; }

 private:
  bool sequence_first_;
};

bool warn_unless(bool fits, const char* reason, bool warn) {
  if (!fits && warn) TORCH_WARN(reason);
  return fits;
}

// Included on a thread for as long as it has a transform (vmap, grad, jvp) on its stack.
bool under_functorch() {
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

// Whether the fused way can be taken; with `warn`, why it cannot. Upstream's conditions for the CPU, then the
// operator's.
bool can_fuse(const sdp::sdp_params& p, bool warn) {
  constexpr std::array kTypes{at::kFloat, at::kHalf, at::kBFloat16};
  const auto size = [](const Tensor& t) { return t.sym_size(-1); };
  return sdp::check_nested_tensor(p, warn) && sdp::check_for_dropout(p, warn) && sdp::check_tensor_shapes(p, warn) &&
         sdp::check_batch_size_and_num_heads_dense</*supports_gqa=*/true>(p, warn) &&
         sdp::check_attn_mask_shape(p, warn) && sdp::check_nonzero_sequence_lengths_dense(p, warn) &&
         sdp::check_last_dim_stride_equals_1_dense</*ignore_singleton_dim=*/false>(p, warn) &&
         sdp::check_tensor_dtype(p, kTypes, warn) &&
         warn_unless(size(p.query) == size(p.key) && size(p.query) == size(p.value),
                     "The heads of query, key and value differ in size.", warn) &&
         warn_unless(!(p.attn_mask && p.attn_mask->requires_grad()), "The mask requires a gradient.", warn) &&
         warn_unless(!under_functorch(), "A transform of functorch is active.", warn) &&
         warn_unless(has_op(p.attn_mask ? "aclnnFlashAttentionScoreV2" : "aclnnFlashAttentionScore"),
                     "The device library has no operator aclnnFlashAttentionScore.", warn);
}

int64_t choose(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask,
               double dropout, bool causal, std::optional<double>, bool grouped) {
  const sdp::sdp_params params{query, key, value, mask, dropout, causal, grouped};
  auto& context = at::globalContext();
  const bool plain = context.userEnabledMathSDP();
  const bool fused =
      context.userEnabledFlashSDP() || context.userEnabledMemEfficientSDP() || context.userEnabledOverrideableSDP();
  const bool plain_first = context.sDPPriorityOrder().front() == at::SDPBackend::math;
  if (fused && !(plain && plain_first) && can_fuse(params, false))
    return static_cast<int64_t>(at::SDPBackend::overrideable);
  if (plain) return static_cast<int64_t>(at::SDPBackend::math);
  if (fused) can_fuse(params, true);
  TORCH_CHECK(false, "No viable backend for scaled_dot_product_attention was found.");
}

// Made once per card and kept, beside the caching allocator: it is no memory of the program's. The operator only reads
// it, and the copy has ended when it is first seen, so that any stream may use it.
Tensor triangle(const Tensor& like) {
  static std::mutex mutex;
  static auto* const made = new std::vector<Tensor>(device_count());
  std::lock_guard<std::mutex> lock(mutex);
  auto& mask = made->at(like.get_device());
  if (!mask.defined()) {
    c10::InferenceMode outside(false);  // later calls save it for their gradients
    const auto host = at::ones({kTriangle, kTriangle}, at::kBool).triu_(1);
    const auto& api = acl::api();
    void* memory = nullptr;
    NPU_CHECK(api.aclrtMalloc(&memory, host.nbytes(), ACL_MEM_MALLOC_HUGE_FIRST));
    NPU_CHECK(api.aclrtMemcpy(memory, host.nbytes(), host.const_data_ptr(), host.nbytes(), ACL_MEMCPY_HOST_TO_DEVICE));
    mask = at::for_blob(memory, host.sizes())
               .options(like.options().dtype(at::kBool))
               .target_device(like.device())
               .make_tensor();
  }
  return mask;
}

struct Masks {
  std::optional<Tensor> added, hidden;
  int64_t sparse_mode = 0;
  int64_t next_tokens = kAllTokens;
};

Masks masks(const Tensor& query, const Tensor& key, const std::optional<Tensor>& bias, bool causal) {
  Masks m;
  if (bias && bias->defined()) {
    auto b = *bias;
    while (b.dim() < 4) b = b.unsqueeze(0);
    m.added = b.to(query.scalar_type()).expand({b.size(0), query.size(1), query.size(2), key.size(2)}).contiguous();
  }
  if (causal) {
    m.hidden = triangle(query);
    m.sparse_mode = 2;
    m.next_tokens = 0;
  }
  return m;
}

double scale_of(const Tensor& query, std::optional<double> scale) {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
}

// In the layout that upstream's meta function promises to compiled graphs: that of the argument.
Tensor laid_out_as(const Tensor& given, const Tensor& result) {
  const auto strides = given.is_non_overlapping_and_dense() ? given.strides().vec()
                                                            : at::infer_dense_strides(given.sizes(), given.strides());
  if (result.strides() == strides) return result;
  return at::empty_strided(result.sizes(), strides, result.options()).copy_(result);
}

using Forward = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

Forward attention(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& bias,
                  double dropout, bool causal, bool, std::optional<double> scale) {
  CardGuard guard(query);
  check_same_device("scaled_dot_product_attention", {&query, &key, &value});
  TORCH_CHECK(dropout == 0, "_scaled_dot_product_fused_attention_overrideable on npu: dropout_p must be 0, but is ",
              dropout);
  const Layout layout({&query, &key, &value});
  const auto q = layout.given(query), k = layout.given(key), v = layout.given(value);
  const auto m = masks(query, key, bias, causal);
  const auto out = empty_same(q, q.scalar_type());
  const auto max = empty({query.size(0), query.size(1), query.size(2), kRepeats}, at::kFloat),
             sum = empty_same(max, at::kFloat), nothing = empty({0}, q.scalar_type());
  if (m.added)
    NPU_EXEC(aclnnFlashAttentionScoreV2, q, k, v, m.added, std::nullopt, std::nullopt, m.hidden, at::IntArrayRef(),
             std::nullopt, std::nullopt, scale_of(q, scale), 1.0, kAllTokens, m.next_tokens, query.size(1),
             layout.name(), int64_t{0}, m.sparse_mode, kAfterScaling, max, sum, nothing, out);
  else
    NPU_EXEC(aclnnFlashAttentionScore, q, k, v, std::nullopt, std::nullopt, std::nullopt, m.hidden, at::IntArrayRef(),
             scale_of(q, scale), 1.0, kAllTokens, m.next_tokens, query.size(1), layout.name(), int64_t{0},
             m.sparse_mode, max, sum, nothing, out);
  const auto logsumexp = max.select(-1, 0) + sum.select(-1, 0).log();
  // Without dropout there is no seed and no offset, but compiled graphs keep two tensors. Not on the meta device, as
  // upstream's meta function has it: the backward operator would be dispatched to that.
  static const Tensor no_seed = [] {
    c10::InferenceMode outside(false);  // a later call saves it for its gradient
    return at::zeros({}, at::kLong);
  }();
  return {laid_out_as(query, layout.view(out)), logsumexp, {}, {}, query.size(2), key.size(2), no_seed, no_seed, {}};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(
    const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
    std::array<bool, 4> mask, const Tensor& out, const Tensor& logsumexp, const Tensor&, const Tensor&, c10::SymInt,
    c10::SymInt, double, bool causal, const Tensor&, const Tensor&, std::optional<double> scale) {
  CardGuard guard(query);
  TORCH_CHECK(!mask[3], "scaled_dot_product_attention on npu: attn_mask has no gradient on the fused path");
  const Layout layout({&query, &key, &value, &out});
  const auto q = layout.given(query), k = layout.given(key), v = layout.given(value);
  const auto m = masks(query, key, bias, causal);
  const auto max = logsumexp.unsqueeze(-1).expand({-1, -1, -1, kRepeats}).contiguous(), sum = at::ones_like(max);
  const auto dq = empty_same(q, q.scalar_type()), dk = empty_same(k, k.scalar_type()),
             dv = empty_same(v, v.scalar_type()), nothing = empty({0}, q.scalar_type());
  if (m.added)
    NPU_EXEC(aclnnFlashAttentionScoreGradV2, q, k, v, layout.given(grad), m.added, std::nullopt, std::nullopt, m.hidden,
             max, sum, nothing, layout.given(out), at::IntArrayRef(), std::nullopt, std::nullopt, scale_of(q, scale),
             1.0, kAllTokens, m.next_tokens, query.size(1), layout.name(), int64_t{0}, m.sparse_mode, kAfterScaling, dq,
             dk, dv, nothing);
  else
    NPU_EXEC(aclnnFlashAttentionScoreGrad, q, k, v, layout.given(grad), std::nullopt, std::nullopt, std::nullopt,
             m.hidden, max, sum, nothing, layout.given(out), at::IntArrayRef(), scale_of(q, scale), 1.0, kAllTokens,
             m.next_tokens, query.size(1), layout.name(), int64_t{0}, m.sparse_mode, dq, dk, dv, nothing);
  return {
      laid_out_as(query, layout.view(dq)), laid_out_as(key, layout.view(dk)), laid_out_as(value, layout.view(dv)), {}};
}

Tensor whole_attention(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask,
                       double dropout, bool causal, std::optional<double> scale, bool grouped) {
  const bool plain = is_direct(query) && is_direct(key) && is_direct(value);
  if (!plain || mask.has_value() || query.dim() != 4 ||
      choose(query, key, value, mask, dropout, causal, scale, grouped) !=
          static_cast<int64_t>(at::SDPBackend::overrideable))
    return at::native::scaled_dot_product_attention(query, key, value, mask, dropout, causal, scale, grouped);
  CardGuard guard(query);
  const Layout layout({&query, &key, &value});
  const auto m = masks(query, key, std::nullopt, causal);
  const auto out = std::get<0>(call::npu_fusion_attention(
      layout.given(query), layout.given(key), layout.given(value), query.size(1), layout.name(), std::nullopt,
      std::nullopt, m.hidden, scale_of(query, scale), 1.0, kAllTokens, m.next_tokens, 0, std::nullopt, std::nullopt,
      std::nullopt, m.sparse_mode, true, false, "", std::nullopt, std::nullopt, 0, 0));
  return layout.view(out);
}

}  // namespace

NPU_REGISTER(attention) {
  reg_as(c10::DispatchKey::AutogradPrivateUse1, "aten::scaled_dot_product_attention", "", &whole_attention);
  manual("aten::_fused_sdp_choice", "", &choose);
  manual("aten::_scaled_dot_product_fused_attention_overrideable", "", &attention);
  manual("aten::_scaled_dot_product_fused_attention_overrideable_backward", "", &attention_backward);
}

}  // namespace npu::ops

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &npu::ops::choose)
}
