#include "kernels/families/fused_collectives.h"

namespace softnpu::kernels {

void grouped_product(const Tensor& out, const Tensor& rows, const Tensor& weight, IntArrayRef counts, int64_t ranks,
                     bool transposed) {
  const int64_t experts = weight.size(0);
  const auto each = at::tensor(counts, at::kLong);
  const auto expert = at::arange(experts, at::kLong).repeat({ranks}).repeat_interleave(each);
  rows.copy_(rows.index_select(0, at::argsort(expert, /*stable=*/true)));
  const auto totals = each.view({ranks, experts}).sum(0);
  const auto matrices = transposed ? weight.transpose(1, 2) : weight;
  int64_t at = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t count = totals[e].item<int64_t>();
    if (count)
      product_with(out.narrow(0, at, count), rows.narrow(0, at, count), matrices[e], std::nullopt, std::nullopt);
    at += count;
  }
}

}  // namespace softnpu::kernels
