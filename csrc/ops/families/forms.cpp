#include "ops/families/forms.h"

#include <ATen/native/BinaryOps.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/native/TensorShape.h>

#include "ops/provider.h"

namespace npu::ops {

void check_inplace(const Tensor& self, const Spec& result) {
  TORCH_CHECK(c10::canCast(result.dtype, self.scalar_type()), "result type ", result.dtype,
              " can't be cast to the desired output type ", self.scalar_type());
  TORCH_CHECK(at::IntArrayRef(result.sizes) == self.sizes(), "output with shape ", self.sizes(),
              " doesn't match the broadcast shape ", at::IntArrayRef(result.sizes));
}

void check_subtraction(const Tensor& self, const c10::Scalar& other, const c10::Scalar& alpha) {
  at::native::sub_check(self, other);
  at::native::alpha_check(at::result_type(self, other), alpha);
}

void check_subtraction(const Tensor& self, const Tensor& other, const c10::Scalar& alpha) {
  at::native::sub_check(self, other);
  at::native::alpha_check(promote(self, other), alpha);
}

void check_celu(const c10::Scalar& alpha) {
  TORCH_CHECK(alpha.to<double>() != 0, "ZeroDivisionError: alpha cannot be 0 for CELU");
}

const Tensor& expanding(const Tensor& self, const Tensor& out, const char* op) {
  TORCH_CHECK(at::is_expandable_to(self.sizes(), out.sizes()), op, ": input of shape ", self.sizes(),
              " cannot be broadcast to the result's, ", out.sizes());
  return self;
}

void check_mv(const Tensor& self, const Tensor& vec) {
  TORCH_CHECK(self.dim() == 2 && vec.dim() == 1, "vector + matrix @ vector expected, got 1, ", self.dim(), ", ",
              vec.dim());
  TORCH_CHECK(self.size(1) == vec.size(0), "size mismatch, got input (", self.size(0), "), mat (", self.size(0), "x",
              self.size(1), "), vec (", vec.size(0), ")");
  TORCH_CHECK(self.scalar_type() == vec.scalar_type(),
              "expected m1 and m2 to have the same dtype, but got: ", self.dtype(), " != ", vec.dtype());
}

void check_one_row(const Tensor& sequence) {
  TORCH_CHECK(sequence.dim() == 1, "torch.searchsorted(): input value can be a scalar only when boundaries tensor ",
              "dimension is 1, but we got boundaries tensor dim(", sequence.dim(),
              ") and input value's dim(0) numel(1)");
}

Spec stacked(at::TensorList tensors, int64_t dim) {
  TORCH_CHECK(!tensors.empty(), "stack expects a non-empty TensorList");
  const auto sizes = tensors[0].sizes();
  for (size_t i = 1; i < tensors.size(); i++) {
    TORCH_CHECK(tensors[i].sizes() == sizes, "stack expects each tensor to be equal size, but got ", sizes,
                " at entry 0 and ", tensors[i].sizes(), " at entry ", i);
    TORCH_CHECK(tensors[i].device() == tensors[0].device(), "Expected all tensors to be on the same device, but found ",
                tensors[0].device(), " and ", tensors[i].device());
  }
  Spec spec = sized(sizes, at::native::result_type(tensors));
  spec.sizes.insert(spec.sizes.begin() + new_dim(tensors, dim), static_cast<int64_t>(tensors.size()));
  return spec;
}

std::vector<Tensor> in_type(at::TensorList tensors, at::ScalarType type) {
  std::vector<Tensor> result;
  result.reserve(tensors.size());
  for (const auto& t : tensors) result.push_back(t.scalar_type() == type ? t : t.to(type));
  return result;
}

Spec repeated(const Tensor& self, at::IntArrayRef repeats) {
  const auto rank = static_cast<int64_t>(repeats.size());
  TORCH_CHECK(rank >= self.dim(),
              "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  Spec spec = sized(repeats, self);
  for (int64_t i = 0; i < rank; i++) {
    TORCH_CHECK(repeats[i] >= 0, "Trying to create tensor with negative dimension ", repeats[i], ": ", repeats);
    if (i >= rank - self.dim()) spec.sizes[i] *= self.size(i - (rank - self.dim()));
  }
  return spec;
}

Spec extended(const Tensor& self, at::IntArrayRef pad) {
  TORCH_CHECK(pad.size() % 2 == 0, "Length of pad must be even but instead it equals ", pad.size());
  const auto pairs = static_cast<int64_t>(pad.size()) / 2;
  TORCH_CHECK(self.dim() >= pairs, "Length of pad should be no more than twice the number of dimensions of the input. ",
              "Pad length is ", pad.size(), "while the input has ", self.dim(), "dimensions.");
  Spec spec = like(self);
  for (int64_t i = 0; i < pairs; i++) {
    const int64_t dim = self.dim() - 1 - i;
    spec.sizes[dim] += pad[2 * i] + pad[2 * i + 1];
    TORCH_CHECK(spec.sizes[dim] >= 0, "The input size ", self.size(dim), ", plus negative padding ", pad[2 * i],
                " and ", pad[2 * i + 1], " resulted in a negative output size, which is invalid. Check dimension ", dim,
                " of your input.");
  }
  return spec;
}

Spec embedded(const Tensor& weight, const Tensor& indices) {
  TORCH_CHECK(weight.dim() == 2, "'weight' must be 2-D");
  TORCH_CHECK(
      indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt,
      "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got ",
      indices.toString(), " instead (while checking arguments for embedding)");
  Spec spec = sized(indices.sizes(), weight);
  spec.sizes.push_back(weight.size(1));
  return spec;
}

Spec affine_grid(const Tensor& theta, at::IntArrayRef size) {
  TORCH_CHECK(size.size() == 4 || size.size() == 5,
              "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.");
  const auto dims = static_cast<int64_t>(size.size()) - 2;
  TORCH_CHECK(theta.sizes() == at::IntArrayRef({size[0], dims, dims + 1}), "Expected a batch of ", dims, "D affine ",
              "matrices of shape ", size[0], "x", dims, "x", dims + 1, " for size ", size, ". Got ", theta.sizes());
  Spec spec = sized(size.slice(1), theta);
  spec.sizes[0] = size[0];
  spec.sizes.push_back(dims);
  return spec;
}

Spec convolved_tbc(const Tensor& self, const Tensor& weight, const Tensor& bias, int64_t pad) {
  TORCH_CHECK(self.dim() == 3, "Input must have 3 dims: time, batch, in_channel");
  TORCH_CHECK(weight.dim() == 3, "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.");
  TORCH_CHECK(bias.dim() == 1, "Bias must be 1-D");
  TORCH_CHECK(self.size(2) == weight.size(1), "Input dim 2 (input channels) is not == dim 1 in the weight tensor");
  TORCH_CHECK(weight.size(2) == bias.size(0), "Bias size must equal dim 2 in the weight tensor (output channels).");
  return sized({self.size(0) - weight.size(0) + 1 + pad * 2, self.size(1), weight.size(2)}, self);
}

Spec depthwise(const Tensor& self, const Tensor& weight, at::IntArrayRef kernel, at::IntArrayRef padding,
               at::IntArrayRef stride, at::IntArrayRef dilation) {
  TORCH_CHECK(self.dim() == 4 && weight.dim() == 4,
              "_conv_depthwise2d: expected images and filters of 4 dimensions, got ", self.dim(), " and ",
              weight.dim());
  TORCH_CHECK(weight.sizes().slice(2) == kernel && weight.size(1) == 1 && weight.size(0) % self.size(1) == 0,
              "_conv_depthwise2d: weight of shape ", weight.sizes(), " does not fit kernel_size ", kernel, " and ",
              self.size(1), " channels");
  return sized(at::native::conv_output_size(self.sizes(), weight.sizes(), padding, stride, dilation), self);
}

void check_gather_update(const Tensor& input, const Tensor& sum, const Tensor& square_sum,
                         const std::optional<Tensor>& running_mean, const std::optional<Tensor>& running_var,
                         const Tensor& counts) {
  constexpr const char* kOp = "batch_norm_gather_stats_update: ";
  TORCH_CHECK(input.dim() > 1, kOp, "input has ", input.dim(), " dimensions, expected at least 2");
  TORCH_CHECK(sum.dim() == 2 && sum.sym_size(1) == input.sym_size(1) && sum.sym_sizes() == square_sum.sym_sizes(), kOp,
              "mean and invstd must be rows of sums, one for each card, with ", input.sym_size(1), " channels");
  TORCH_CHECK(counts.sym_numel() == sum.sym_size(0), kOp, "counts has ", counts.sym_numel(), " numbers, expected ",
              sum.sym_size(0));
  for (const auto* running : {&running_mean, &running_var})
    TORCH_CHECK(!running->has_value() ||
                    ((*running)->scalar_type() == sum.scalar_type() && (*running)->sym_numel() == input.sym_size(1)),
                kOp, "running_mean and running_var must have a number of type ", sum.scalar_type(),
                " for each channel");
}

Spec chunked(at::TensorList tensors, int64_t dim, int64_t chunks) {
  dim = at::native::preprocess_chunk_cat_inputs(tensors, dim, chunks);
  Spec spec = sized(tensors[0].sizes().slice(0, dim), tensors[0]);
  int64_t width = 0;
  for (const auto& t : tensors)
    width += (t.size(dim) + chunks - 1) / chunks * c10::multiply_integers(t.sizes().slice(dim + 1));
  spec.sizes.push_back(chunks);
  spec.sizes.push_back(width);
  return spec;
}

Spec heads_of(const Tensor& qkv, int64_t heads) {
  const int64_t size = qkv.size(2) / 3;
  TORCH_CHECK(heads > 0 && size % heads == 0, "_transform_bias_rescale_qkv: num_heads ", heads,
              " does not divide the size ", size);
  return sized({qkv.size(0), heads, qkv.size(1), size / heads}, qkv);
}

bool goes_as_float(const Tensor& self) {
  return !on_softnpu() && c10::isIntegralType(self.scalar_type(), false) && self.scalar_type() != at::kLong;
}

void set_identity(const Tensor& t) {
  if (t.numel() == 0) return;
  t.zero_();
  t.diagonal(0, -2, -1).fill_(1);
}

}  // namespace npu::ops
