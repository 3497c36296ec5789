#include "kernels/families/fused_loss.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>

#include <algorithm>

#include "kernels/engine/require.h"
#include "kernels/families/loss.h"

namespace softnpu::kernels {

namespace {

// What both directions need of the targets: which rows count, the class of each (0 where it does not), its weight.
struct Targets {
  Tensor counted, places, weights, row_weights;

  Targets(const Tensor& target, const Optional& weight, int64_t ignore_index, const Tensor& like) {
    const auto wanted = classes(target);
    counted = wanted.ne(ignore_index);
    places = at::where(counted, wanted, at::zeros_like(wanted)).unsqueeze(1);
    weights = weight ? weight->to(like.scalar_type()) : at::ones({like.size(1)}, like.options());
    row_weights = weights.expand(like.sizes()).gather(1, places).squeeze(1) * counted;
  }
};

Tensor reduced(const Tensor& rows, std::string_view reduction, const Tensor& divisor) {
  if (reduction == "none") return rows;
  const auto sum = rows.sum().view({1});
  return reduction == "sum" ? sum : sum / divisor;
}

Tensor packed(const Tensor& flags) {
  const int64_t count = flags.numel();
  const auto dense = flags.contiguous();
  const auto* bits = dense.const_data_ptr<bool>();
  auto bytes = at::zeros({(count + 7) / 8}, at::kByte);
  auto* out = bytes.mutable_data_ptr<uint8_t>();
  for (int64_t i = 0; i < (count + 7) / 8 * 8; i++)
    if (i >= count || bits[i]) out[i / 8] |= 0x80 >> i % 8;
  return bytes;
}

Tensor unpacked(const Tensor& mask, int64_t count) {
  const auto dense = mask.contiguous();
  const auto* bytes = dense.const_data_ptr<uint8_t>();
  auto flags = at::empty({count}, at::kBool);
  auto* bits = flags.mutable_data_ptr<bool>();
  for (int64_t i = 0; i < count; i++) bits[i] = bytes[i / 8] << i % 8 & 0x80;
  return flags;
}

// What most programs ask for has ATen's own kernels, and their results bit for bit.
bool is_plain(const CrossEntropy& how, const Tensor& rows, const Optional& weight) {
  return how.smoothing == 0 && !weight && rows.scalar_type() == at::kFloat;
}

void plain_cross_entropy(const Tensor& loss, Tensor logs, const Tensor& input, const Tensor& target,
                         const CrossEntropy& how) {
  at::_log_softmax_out(logs, input, 1, false);
  const auto reduction = how.reduction == "none"  ? at::Reduction::None
                         : how.reduction == "sum" ? at::Reduction::Sum
                                                  : at::Reduction::Mean;
  loss.copy_(at::nll_loss(logs, classes(target), {}, reduction, how.ignore_index));
}

void plain_cross_entropy_backward(Tensor& grad_input, const Tensor& grad, const Tensor& logs, const Tensor& target,
                                  const CrossEntropy& how) {
  const auto wanted = classes(target).contiguous();
  const int64_t rows = logs.size(0), columns = logs.size(1);
  const auto* place = wanted.const_data_ptr<int64_t>();
  const auto counted = rows - std::count(place, place + rows, how.ignore_index);
  const auto given = grad.to(at::kFloat).expand({how.reduction == "none" ? rows : 1}).contiguous();
  const auto* of_loss = given.const_data_ptr<float>();
  const auto probs = at::exp(logs.contiguous());
  auto* out = probs.mutable_data_ptr<float>();
  for (int64_t i = 0; i < rows; i++, out += columns) {
    const bool counts = place[i] != how.ignore_index;
    float share = !counts ? 0 : of_loss[how.reduction == "none" ? i : 0];
    if (how.reduction == "mean") share /= static_cast<float>(counted);
    for (int64_t j = 0; j < columns; j++) out[j] *= share;
    if (counts) out[place[i]] -= share;
  }
  grad_input.copy_(probs);
}

}  // namespace

void cross_entropy(std::array<Tensor, 4> out, const Tensor& input, const Tensor& target, const Optional& weight,
                   const CrossEntropy& how, bool return_zloss) {
  if (is_plain(how, input, weight) && !return_zloss) {
    out[2].zero_();
    out[3].zero_();
    return plain_cross_entropy(out[0], out[1], input, target, how);
  }
  const auto x = wide(input);
  const Targets t(target, weight, how.ignore_index, x);
  const auto logs = at::_log_softmax(x, 1, false);
  auto rows = -logs.gather(1, t.places).squeeze(1) * t.row_weights;
  if (how.smoothing != 0) {
    const auto smooth = -at::mv(logs, t.weights) * t.counted;
    rows = rows * (1 - how.smoothing) + smooth * (how.smoothing / static_cast<double>(x.size(1)));
  }
  out[0].copy_(reduced(rows, how.reduction, t.row_weights.sum()));
  out[1].copy_(logs);
  if (!return_zloss) {
    out[2].zero_();
    out[3].zero_();
    return;
  }
  const auto lse = at::logsumexp(x, {1});
  out[2].copy_(reduced(lse.square() * how.zloss_scale * t.counted, how.reduction, at::scalar_tensor(x.size(0))));
  out[3].copy_(lse);
}

void cross_entropy_backward(Tensor& grad_input, const Tensor& grad, const Tensor& logs, const Tensor& target,
                            const Optional& weight, const Optional& grad_zloss, const Optional& lse,
                            const CrossEntropy& how) {
  if (is_plain(how, logs, weight) && !(grad_zloss && lse))
    return plain_cross_entropy_backward(grad_input, grad, logs, target, how);
  const auto log_probs = wide(logs);
  const auto probs = log_probs.exp();
  const Targets t(target, weight, how.ignore_index, log_probs);
  auto of_rows = wide(grad) * t.counted;
  if (how.reduction == "mean") of_rows = of_rows / t.row_weights.sum();
  const auto of_targets = (of_rows * t.row_weights * (1 - how.smoothing)).unsqueeze(1);
  auto result = (probs * of_targets).scatter_add_(1, t.places, -of_targets);
  if (how.smoothing != 0) {
    const auto share = of_rows.unsqueeze(1) * (how.smoothing / static_cast<double>(probs.size(1)));
    result = result + share * (probs * t.weights.sum() - t.weights);
  }
  if (grad_zloss && lse) {
    const double mean = how.reduction == "mean" ? static_cast<double>(probs.size(0)) : 1.0;
    const auto of_lse = wide(*grad_zloss) * wide(*lse) * t.counted * (2 * how.zloss_scale / mean);
    result = result + probs * of_lse.unsqueeze(1);
  }
  grad_input.copy_(result);
}

void linear_max_sum(std::array<Tensor, 5> out, const Optional& logits, const Tensor& input, const Tensor& weight,
                    const Tensor& target, int64_t start, int64_t end) {
  const auto scores = at::matmul(wide(input), wide(weight).t());
  const auto wanted = target.to(at::kLong);
  const auto outside = wanted.lt(start).logical_or(wanted.gt(end));
  const auto places = at::where(outside, at::zeros_like(wanted), wanted - start);
  const auto largest = scores.amax(1);
  const auto shifted = scores - largest.unsqueeze(1);
  out[0].copy_(largest);
  out[1].copy_(shifted.exp().sum(1));
  out[2].copy_(shifted.gather(1, places.unsqueeze(1)).squeeze(1).masked_fill(outside, 0));
  out[3].copy_(packed(outside));
  out[4].copy_(places);
  if (logits) logits->copy_(scores);
}

void loss_with_max_sum(Tensor& loss, const Optional& softmax, const Tensor& largest, const Tensor& sum,
                       const Tensor& predicted, const Optional& logits) {
  loss.copy_(sum.log() - predicted);
  if (softmax && logits) softmax->copy_((wide(*logits) - largest.unsqueeze(1)).exp() / sum.unsqueeze(1));
}

void linear_loss_backward(Tensor& grad_input, Tensor& grad_weight, const Tensor& grad, const Tensor& input,
                          const Tensor& weight, const Tensor& mask, const Tensor& target, const Optional& largest,
                          const Optional& sum, const Optional& softmax) {
  const auto x = wide(input), w = wide(weight);
  auto probs = softmax ? softmax->to(x.scalar_type(), /*non_blocking=*/false, /*copy=*/true)
                       : (at::matmul(x, w.t()) - largest->unsqueeze(1)).exp().div_(sum->unsqueeze(1));
  const auto inside = unpacked(mask, target.size(0)).logical_not().to(x.scalar_type()).unsqueeze(1);
  probs.scatter_add_(1, target.to(at::kLong).unsqueeze(1), -inside);
  probs.mul_(wide(grad).unsqueeze(1));
  grad_input.copy_(at::matmul(probs, w));
  grad_weight.copy_(at::matmul(probs.t(), x));
}

void top_k_top_p(Tensor& out, const Tensor& logits, const Optional& p, const Optional& k) {
  if (logits.numel() == 0) return;
  const int64_t tokens = logits.size(-1);
  auto [values, order] = wide(logits).sort(-1);
  if (k) {
    const auto least = values.gather(-1, (tokens - k->to(at::kLong)).clamp(0, tokens - 1).unsqueeze(-1));
    values = values.masked_fill(values.lt(least), -INFINITY);
  }
  if (p) {
    auto hidden = at::_softmax(values, -1, false).cumsum(-1).le(1 - wide(*p).unsqueeze(-1));
    hidden.select(-1, tokens - 1).fill_(false);  // the best one stays
    values = values.masked_fill(hidden, -INFINITY);
  }
  out.copy_(at::empty_like(values).scatter_(-1, order, values));
}

namespace require {

void class_rows(const Tensor& rows, const Tensor& target, const Optional& weight) {
  that(rows.dim() == 2 && target.dim() == 1 && target.size(0) == rows.size(0),
       "the input is [rows, classes], and target [rows]");
  that(target.scalar_type() == at::kLong || target.scalar_type() == at::kInt, "target is int64 or int32");
  if (rows.dim() == 2) numbers(weight, "weight", rows.size(1));
}

void reduction_name(std::string_view reduction) {
  that(reduction == "mean" || reduction == "sum" || reduction == "none", "reduction is mean, sum or none");
}

void vocabulary_rows(const Optional& logits, const Optional& softmax, const Tensor& rows) {
  that(!logits || (logits->dim() == 2 && logits->size(0) == rows.size(0)),
       "vocab_parallel_logits is [tokens, vocabulary]");
  if (logits) like(softmax, "softmax", *logits);
}

void linear_tokens(const Tensor& input, const Tensor& weight, const Tensor& target, const Tensor& mask) {
  that(input.dim() == 2 && weight.dim() == 2 && input.size(1) == weight.size(1) && target.dim() == 1 &&
           target.size(0) == input.size(0),
       "input is [tokens, hidden], weight [vocabulary, hidden], and target [tokens]");
  that(target.scalar_type() == at::kLong || target.scalar_type() == at::kInt, "target is int64 or int32");
  that(mask.scalar_type() == at::kByte && mask.numel() == (target.size(0) + 7) / 8,
       "target_mask has a bit for each token");
}

}  // namespace require

}  // namespace softnpu::kernels
