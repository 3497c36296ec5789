#include "kernels/families/deformable.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/engine/require.h"

namespace softnpu::kernels {

namespace {

constexpr int64_t kBilinear = 0, kZeros = 0;

// offset as [n, shifts and factors, parts, places, rows, columns]
Tensor by_kind(const Tensor& offset, const Deformable& how) {
  return offset.reshape({offset.size(0), -1, how.parts, how.kernel[0] * how.kernel[1], offset.size(2), offset.size(3)});
}

Tensor steps(int64_t count, int64_t step, int64_t start) { return at::arange(count, at::kFloat) * step - start; }

// The points in the coordinates of grid_sampler_2d, [n * parts, places, rows * columns, 2].
Tensor grid(const Tensor& input, const Tensor& kinds, const Deformable& how) {
  const int64_t height = input.size(2), width = input.size(3), rows = kinds.size(-2), columns = kinds.size(-1);
  const int64_t kh = how.kernel[0], kw = how.kernel[1];
  const auto y = kinds.select(1, 1) + steps(kh, how.dilation[2], 0).repeat_interleave(kw).view({-1, 1, 1}) +
                 steps(rows, how.stride[2], how.padding[0]).view({-1, 1});
  const auto x = kinds.select(1, 0) + steps(kw, how.dilation[3], 0).repeat({kh}).view({-1, 1, 1}) +
                 steps(columns, how.stride[3], how.padding[2]);
  return at::stack({(x * 2 + 1) / width - 1, (y * 2 + 1) / height - 1}, -1).flatten(0, 1).flatten(2, 3);
}

Tensor by_part(const Tensor& input, const Deformable& how) {
  const int64_t n = input.size(0), channels = input.size(1);
  return wide(input).reshape({n * how.parts, channels / how.parts, input.size(2), input.size(3)});
}

// [n, parts, channels of a part, kh, kw, rows, columns] as the image that the convolution reads, and back.
Tensor as_image(const Tensor& samples) {
  return samples.permute({0, 1, 2, 5, 3, 6, 4}).flatten(5, 6).flatten(3, 4).flatten(1, 2);
}

Tensor samples_of(const Tensor& input, const Tensor& offset, const Deformable& how) {
  const auto kinds = by_kind(wide(offset), how);
  auto samples =
      at::grid_sampler_2d(by_part(input, how), grid(input, kinds, how), kBilinear, kZeros, false)
          .view({input.size(0), how.parts, -1, how.kernel[0] * how.kernel[1], offset.size(2), offset.size(3)});
  if (how.modulated) samples = samples * kinds.select(1, 2).unsqueeze(2);
  return as_image(samples.unflatten(3, {how.kernel[0], how.kernel[1]})).contiguous();
}

// Of the image that the convolution reads: (input, offset).
std::pair<Tensor, Tensor> pulled_back(const Tensor& dimage, const Tensor& input, const Tensor& offset,
                                      const Deformable& how) {
  const int64_t n = input.size(0), kh = how.kernel[0], kw = how.kernel[1], rows = offset.size(2),
                columns = offset.size(3);
  // The image as samples again: [n, parts, channels of a part, places, rows, columns].
  auto dsamples = dimage.view({n, how.parts, -1, rows, kh, columns, kw}).permute({0, 1, 2, 4, 6, 3, 5}).flatten(3, 4);
  const auto kinds = by_kind(wide(offset), how);
  const auto features = by_part(input, how), points = grid(input, kinds, how);
  std::vector<Tensor> doffsets(2);
  if (how.modulated) {
    const auto plain = at::grid_sampler_2d(features, points, kBilinear, kZeros, false).view(dsamples.sizes());
    doffsets.push_back((dsamples * plain).sum(2));
    dsamples = dsamples * kinds.select(1, 2).unsqueeze(2);
  }
  const auto [dinput, dgrid] = at::grid_sampler_2d_backward(dsamples.flatten(0, 1).flatten(3, 4).contiguous(), features,
                                                            points, kBilinear, kZeros, false, {true, true});
  const auto dpoints = dgrid.view({n, how.parts, kh * kw, rows, columns, 2});
  doffsets[0] = dpoints.select(-1, 0) * (2.0 / static_cast<double>(input.size(3)));
  doffsets[1] = dpoints.select(-1, 1) * (2.0 / static_cast<double>(input.size(2)));
  return {dinput.view(input.sizes()), at::stack(doffsets, 1).reshape(offset.sizes())};
}

}  // namespace

void deformable_samples(Tensor& sampled, const Tensor& input, const Tensor& offset, const Deformable& how) {
  if (sampled.numel() == 0 || input.numel() == 0) return void(sampled.zero_());
  sampled.copy_(samples_of(input, offset, how));
}

void deformable_samples_backward(Tensor& dinput, Tensor& doffset, const Tensor& dsampled, const Tensor& input,
                                 const Tensor& offset, const Deformable& how) {
  if (dsampled.numel() == 0 || input.numel() == 0) {
    dinput.zero_();
    return void(doffset.zero_());
  }
  const auto [first, second] = pulled_back(wide(dsampled).contiguous(), input, offset, how);
  dinput.copy_(first);
  doffset.copy_(second);
}

void deformable_conv2d(Tensor& out, Tensor& sampled, const Tensor& input, const Tensor& weight, const Tensor& offset,
                       const Optional& bias, const Deformable& how) {
  if (out.numel() == 0 || input.numel() == 0) {
    sampled.zero_();
    return void(bias ? out.copy_(bias->view({1, -1, 1, 1}).expand(out.sizes())) : out.zero_());
  }
  const auto image = samples_of(input, offset, how);
  const int64_t zeros[] = {0, 0}, ones[] = {1, 1};
  out.copy_(at::conv2d(image, wide(weight), wide(bias), how.kernel, IntArrayRef(zeros), IntArrayRef(ones), how.groups));
  sampled.copy_(image);
}

void deformable_conv2d_backward(std::array<Tensor, 4> grads, const Tensor& input, const Tensor& grad_output,
                                const Tensor& sampled, const Tensor& weight, const Tensor& offset,
                                const Deformable& how) {
  if (grad_output.numel() == 0 || input.numel() == 0) {
    for (auto& each : grads) each.zero_();
    if (grad_output.numel()) grads[3].copy_(wide(grad_output).sum({0, 2, 3}));
    return;
  }
  const int64_t zeros[] = {0, 0}, ones[] = {1, 1}, outs[] = {weight.size(0)};
  const auto [dimage, dweight, dbias] =
      at::convolution_backward(wide(grad_output), wide(sampled), wide(weight), IntArrayRef(outs), how.kernel, zeros,
                               ones, false, zeros, how.groups, {true, true, true});
  const auto [dinput, doffset] = pulled_back(dimage, input, offset, how);
  grads[0].copy_(dinput);
  grads[1].copy_(dweight);
  grads[2].copy_(doffset);
  grads[3].copy_(dbias);
}

namespace require {

void deformable_shapes(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& out,
                       const Tensor& sampled, const Deformable& how) {
  rank(input, "input", 4, 4);
  rank(weight, "weight", 4, 4);
  rank(offset, "offset", 4, 4);
  entries(how.kernel, "kernel_size", 2);
  const int64_t kh = how.kernel[0], kw = how.kernel[1];
  that(weight.size(2) == kh && weight.size(3) == kw, "kernel_size is that of weight");
  that(how.groups > 0 && input.size(1) == weight.size(1) * how.groups && weight.size(0) % how.groups == 0,
       "the channels divide into groups");
  shape(out, "the result", {input.size(0), weight.size(0), offset.size(2), offset.size(3)});
  deformable_samples_shapes(input, offset, sampled, how);
}

void deformable_samples_shapes(const Tensor& input, const Tensor& offset, const Tensor& sampled,
                               const Deformable& how) {
  rank(input, "input", 4, 4);
  rank(offset, "offset", 4, 4);
  entries(how.kernel, "kernel_size", 2);
  entries(how.stride, "stride", 4);
  entries(how.padding, "padding", 4);
  entries(how.dilation, "dilation", 4);
  const int64_t kh = how.kernel[0], kw = how.kernel[1];
  that(kh > 0 && kw > 0 && how.parts > 0 && input.size(1) % how.parts == 0,
       "the channels divide into deformable_groups");
  that(offset.size(0) == input.size(0) && offset.size(1) == (how.modulated ? 3 : 2) * how.parts * kh * kw,
       "offset has shifts, and factors if modulated, for each deformable group and place of the kernel");
  shape(sampled, "the samples", {input.size(0), input.size(1), offset.size(2) * kh, offset.size(3) * kw});
}

}  // namespace require

}  // namespace softnpu::kernels
