#include "kernels/families/attention_parts.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/irange.h>

#include <cmath>
#include <limits>

#include "kernels/engine/require.h"

namespace softnpu::kernels::attention {

namespace {

using require::that;

// From (heads, length) of each sequence to (rows, heads).
Tensor in_a_row(const Tensor& weights, const Optional& ends) {
  const auto given = ends->to(at::kLong).contiguous();
  const int64_t rows = weights.size(0), heads = weights.size(1);
  const auto flat = weights.reshape({-1});
  auto result = at::zeros(weights.sizes(), weights.options());
  int64_t begin = 0;
  for (const auto i : c10::irange(given.numel())) {
    const int64_t end = given.const_data_ptr<int64_t>()[i];
    TORCH_CHECK(end >= begin && end <= rows, "actual_seq_qlen does not rise within ", rows, " rows: ", end);
    result.slice(0, begin, end).copy_(flat.slice(0, begin * heads, end * heads).view({heads, end - begin}).t());
    begin = end;
  }
  return result;
}

}  // namespace

void check_ring(const Part& a, const Part& b, const Part& joined, const Optional& ends, const std::string& layout,
                const std::string& softmax_layout) {
  that(layout == "SBH" || layout == "TND", "argument 'input_layout' is not SBH or TND");
  that(softmax_layout.empty() || softmax_layout == "SBH" || softmax_layout == "TND",
       "argument 'input_softmax_layout' is not empty, SBH or TND");
  const bool rows = layout == "TND";
  require::rank(a.out, "prev_attn_out", 3, 3);
  require::rank(a.max, "prev_softmax_max", rows ? 3 : 4, rows ? 3 : 4);
  const int64_t heads = a.max.size(1);
  that(a.max.size(-1) > 0, "prev_softmax_max has no numbers in its last dimension");
  if (rows)
    require::shape(a.max, "prev_softmax_max", {a.out.size(0), a.out.size(1), a.max.size(-1)});
  else
    require::shape(a.max, "prev_softmax_max", {a.out.size(1), heads, a.out.size(0), a.max.size(-1)});
  that(rows || (heads > 0 && a.out.size(2) % heads == 0), "prev_attn_out is not a whole number of heads wide");
  that(!rows || softmax_layout == "TND" || ends, "argument 'actual_seq_qlen' is missing");
  for (const auto* t : {&b.out, &joined.out}) require::like(*t, "cur_attn_out or attn_out", a.out);
  for (const auto* t : {&a.sum, &b.max, &b.sum, &joined.max, &joined.sum}) {
    require::like(*t, "softmax_max or softmax_sum", a.max);
    that(t->scalar_type() == at::kFloat && a.max.scalar_type() == at::kFloat,
         "softmax_max or softmax_sum is not float32");
  }
}

void ring_update(const Part& joined, const Part& a, const Part& b, const Optional& ends, const std::string& layout,
                 const std::string& softmax_layout) {
  const auto best = at::maximum(a.max, b.max);
  const auto of_a = a.sum * (a.max - best).exp(), of_b = b.sum * (b.max - best).exp(), total = of_a + of_b;
  const auto shared = total.masked_fill(total == 0, 1.0);
  const auto weighted = [&](const Tensor& out, const Tensor& part) {
    auto weight = (part / shared).select(-1, 0);
    if (layout == "SBH")
      return (out.to(at::kFloat).unflatten(2, {weight.size(1), -1}) * weight.permute({2, 0, 1}).unsqueeze(-1))
          .flatten(2);
    if (softmax_layout != "TND") weight = in_a_row(weight, ends);
    return out.to(at::kFloat) * weight.unsqueeze(-1);
  };
  joined.out.copy_(weighted(a.out, of_a) + weighted(b.out, of_b));
  joined.max.copy_(best);
  joined.sum.copy_(total);
}

void check_parts(const Tensor& out, const Optional& lse_out, const std::vector<Tensor>& lse,
                 const std::vector<Tensor>& local_out, int64_t update_type) {
  that(update_type == 0 || update_type == 1, "argument 'update_type' is not 0 or 1");
  that(!lse.empty() && lse.size() == local_out.size(), "lse and local_out have different numbers of parts");
  for (const auto i : c10::irange(lse.size())) {
    require::rank(lse[i], "lse", 1, 1);
    require::like(lse[i], "lse", lse[0]);
    require::rank(local_out[i], "local_out", 2, 2);
    require::like(local_out[i], "local_out", out);
  }
  that(out.size(0) == lse[0].size(0), "lse and local_out have different numbers of rows");
  if (lse_out && lse_out->numel()) require::like(lse_out, "lse_out", lse[0]);
}

void update(Tensor& out, const Optional& lse_out, const std::vector<Tensor>& lse, const std::vector<Tensor>& local_out,
            int64_t) {
  std::vector<Tensor> logs;
  for (const auto& part : lse) logs.push_back(part.to(at::kFloat));
  const auto total = at::logsumexp(at::stack(logs), {0});
  const auto from = total.masked_fill(total == -std::numeric_limits<double>::infinity(), 0.0);  // of rows without keys
  auto result = at::zeros(out.sizes(), at::kFloat);
  for (const auto i : c10::irange(logs.size()))
    result.addcmul_((logs[i] - from).exp_().unsqueeze(-1), local_out[i].to(at::kFloat));
  out.copy_(result);
  if (lse_out && lse_out->numel()) lse_out->copy_(total);
}

}  // namespace softnpu::kernels::attention
