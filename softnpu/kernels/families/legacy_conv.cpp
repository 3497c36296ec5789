#include "kernels/families/legacy_conv.h"

#include <algorithm>

#include "kernels/families/deformable.h"

namespace softnpu::kernels {

namespace {

// Without those of batch and channels, which are 1.
std::vector<int64_t> inner(at::IntArrayRef list, const char* name, size_t dims) {
  TORCH_CHECK(list.size() == dims + 2 && list[0] == 1 && list[1] == 1, name, " is ", list, ", expected 1, 1 and ", dims,
              " numbers");
  return list.slice(2).vec();
}

// In float32: a card's unit adds up so, and rounds once.
Tensor summed(const Tensor& t) { return t.scalar_type() == at::kDouble ? t : t.to(at::kFloat); }
Optional summed(const Optional& t) { return t ? Optional(summed(*t)) : t; }

std::tuple<Tensor, Tensor, Tensor> backward(const Tensor& grad, const Tensor& x, const Tensor& filter,
                                            const LegacyWindow& w, std::array<bool, 3> mask) {
  return at::convolution_backward(summed(grad), summed(x), summed(filter), at::OptionalIntArrayRef(), w.stride,
                                  w.padding, w.dilation, false, std::vector<int64_t>(w.stride.size(), 0), w.groups,
                                  mask);
}

void check(const Tensor& t, const char* name, const LegacyWindow& w) {
  TORCH_CHECK(t.dim() == static_cast<int64_t>(w.stride.size()) + 2, name, " has ", t.dim(), " dimensions, expected ",
              w.stride.size() + 2);
}

// What the forward form makes of x: gradients must fit it, for ATen's backward does not look.
void check_gradient(const Tensor& grad, at::IntArrayRef x, at::IntArrayRef filter, const LegacyWindow& w) {
  const size_t dims = w.stride.size();
  TORCH_CHECK(x.size() == dims + 2 && filter.size() == dims + 2 && w.groups > 0 && x[1] == filter[1] * w.groups &&
                  filter[0] % w.groups == 0,
              "x of sizes ", x, " does not fit a filter of sizes ", filter, " in ", w.groups, " groups");
  std::vector<int64_t> sizes{x[0], filter[0]};
  for (size_t d = 0; d < dims; d++) {
    TORCH_CHECK(w.stride[d] > 0 && w.dilation[d] > 0 && w.padding[d] >= 0 && filter[d + 2] > 0, "the window is empty");
    const int64_t room = x[d + 2] + 2 * w.padding[d] - w.dilation[d] * (filter[d + 2] - 1) - 1;
    TORCH_CHECK(room >= 0, "the filter is larger than x");
    sizes.push_back(room / w.stride[d] + 1);
  }
  TORCH_CHECK(grad.sizes() == at::IntArrayRef(sizes), "the gradient has sizes ", grad.sizes(), ", expected ", sizes);
}

}  // namespace

LegacyWindow::LegacyWindow(at::IntArrayRef strides, at::IntArrayRef pads, at::IntArrayRef dilations, int64_t groups_,
                           const std::string& data_format, at::IntArrayRef output)
    : groups(groups_) {
  TORCH_CHECK(data_format == "NCHW" || data_format == "NCDHW", "data_format ", data_format, " is not implemented");
  const size_t dims = data_format.size() - 2;
  stride = inner(strides, "strides", dims);
  dilation = inner(dilations, "dilations", dims);
  TORCH_CHECK(pads.size() == 2 * dims, "pads has ", pads.size(), " numbers, expected ", 2 * dims);
  for (size_t d = 0; d < dims; d++) {
    TORCH_CHECK(pads[2 * d] == pads[2 * d + 1], "pads that differ at both ends are not implemented");
    padding.push_back(pads[2 * d]);
  }
  output_padding = output.size() == dims + 2 ? output.slice(2).vec() : output.vec();
  if (output_padding.empty()) output_padding.assign(dims, 0);
  TORCH_CHECK(output_padding.size() == dims, "output_padding is ", output);
}

void legacy_conv(Tensor& y, const Tensor& x, const Tensor& filter, const Optional& bias, const LegacyWindow& w) {
  check(x, "x", w);
  put(y, at::convolution(summed(x), summed(filter), summed(bias), w.stride, w.padding, w.dilation, false,
                         std::vector<int64_t>(w.stride.size(), 0), w.groups));
}

void legacy_conv_input(Tensor& y, const Tensor& input_size, const Tensor& filter, const Tensor& grad,
                       const LegacyWindow& w) {
  check_gradient(grad, y.sizes(), filter.sizes(), w);
  TORCH_CHECK(at::IntArrayRef(integers(input_size)) == y.sizes(), "input_size is not the sizes of y");
  put(y, std::get<0>(backward(grad, at::empty(y.sizes(), y.options()), filter, w, {true, false, false})));
}

void legacy_conv_filter(Tensor& y, const Tensor& x, const Tensor& filter_size, const Tensor& grad,
                        const LegacyWindow& w) {
  check_gradient(grad, x.sizes(), y.sizes(), w);
  TORCH_CHECK(at::IntArrayRef(integers(filter_size)) == y.sizes(), "filter_size is not the sizes of y");
  put(y, std::get<1>(backward(grad, x, at::empty(y.sizes(), y.options()), w, {false, true, false})));
}

void legacy_conv_transpose(Tensor& y, const Tensor& input_size, const Tensor& x, const Tensor& filter,
                           const Optional& bias, const LegacyWindow& w) {
  check(x, "x", w);
  TORCH_CHECK(input_size.numel() == y.dim(), "input_size has ", input_size.numel(), " numbers");
  put(y, at::convolution(summed(x), summed(filter), summed(bias), w.stride, w.padding, w.dilation, true,
                         w.output_padding, w.groups));
}

namespace {

Tensor channels_first(const Tensor& t) {
  TORCH_CHECK(t.dim() == 4, "an image has 4 dimensions, not ", t.dim());
  return t.permute({0, 3, 1, 2});
}

// use(how) with the numbers where deformable.h has them.
template <class Use>
void with(const LegacyDeformable& how, Use&& use) {
  TORCH_CHECK(how.data_format == "NHWC", "data_format ", how.data_format, " is not implemented");
  for (const auto& list : {how.strides, how.dilations})
    TORCH_CHECK(list.size() == 4 && list[0] == 1 && list[3] == 1,
                "strides and dilations are [1, rows, columns, 1], not ", list);
  const std::array<int64_t, 4> stride{1, 1, how.strides[1], how.strides[2]},
      dilation{1, 1, how.dilations[1], how.dilations[2]};
  use(Deformable{how.kernel, stride, how.pads, dilation, 1, how.parts, how.modulated});
}

}  // namespace

void legacy_deformable(Tensor& y, const Tensor& x, const Tensor& offsets, const LegacyDeformable& legacy) {
  with(legacy, [&](const Deformable& how) {
    auto out = channels_first(y);
    const auto image = channels_first(x), shifts = channels_first(offsets);
    require::deformable_samples_shapes(image, shifts, out, how);
    deformable_samples(out, image, shifts, how);
  });
}

void legacy_deformable_backward(Tensor& grad_x, Tensor& grad_offsets, const Tensor& grad, const Tensor& x,
                                const Tensor& offsets, const LegacyDeformable& legacy) {
  with(legacy, [&](const Deformable& how) {
    auto d_image = channels_first(grad_x), d_shifts = channels_first(grad_offsets);
    const auto image = channels_first(x), shifts = channels_first(offsets), out = channels_first(grad);
    require::deformable_samples_shapes(image, shifts, out, how);
    TORCH_CHECK(d_image.sizes() == image.sizes() && d_shifts.sizes() == shifts.sizes(), "gradients of other sizes");
    deformable_samples_backward(d_image, d_shifts, out, image, shifts, how);
  });
}

}  // namespace softnpu::kernels
