// Histograms over several dimensions: their results are lists, which a table line cannot state.
#include <ATen/ATen.h>

#include "aclnn/op.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

using Optional = std::optional<Tensor>;
using Range = std::optional<c10::ArrayRef<double>>;

std::vector<Tensor> histogramdd_edges(const Tensor& self, at::IntArrayRef bins, Range range, const Optional& weight,
                                      bool density) {
  CardGuard guard(self);
  TORCH_CHECK(self.dim() >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions, but got ",
              self.dim());
  TORCH_CHECK(static_cast<int64_t>(bins.size()) == self.size(-1),
              "histogramdd: The size of bins must be equal to the innermost dimension of the input.");
  std::vector<Tensor> edges;
  for (const int64_t n : bins) {
    TORCH_CHECK(n > 0, "torch.histogramdd(): bins must be positive, but got ", n);
    edges.push_back(empty({n + 1}, self.scalar_type()));
  }
  NPU_EXEC(softnpuHistogramddEdges, self, bins, scalars(range), weight, density, edges);
  return edges;
}

Tensor histogramdd(const Tensor& self, at::TensorList bins, const Optional& weight, bool density) {
  CardGuard guard(self);
  Sizes sizes;
  for (const auto& edges : bins) sizes.push_back(edges.numel() - 1);
  auto out = empty(sizes, self.scalar_type());
  NPU_EXEC(softnpuHistogramdd, self, bins, weight, density, out);
  return out;
}

}  // namespace

NPU_REGISTER(histogram) {
  manual("aten::_histogramdd_bin_edges", "", &histogramdd_edges, "softnpuHistogramddEdges");
  manual("aten::_histogramdd_from_bin_tensors", "", &histogramdd, "softnpuHistogramdd");
}

}  // namespace npu::ops
