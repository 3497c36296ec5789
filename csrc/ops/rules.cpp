#include "ops/rules.h"

#include <ATen/TensorIterator.h>
#include <ATen/native/ForeachUtils.h>
#include <ATen/native/Pool.h>
#include <ATen/native/Resize.h>
#include <ATen/native/im2col_shape_check.h>

#include <numeric>

#include "ops/provider.h"

namespace npu::ops {

Target::Target(const Tensor& out, const Spec& spec, std::initializer_list<const Tensor*> inputs, Type type)
    : out_(out) {
  TORCH_CHECK(out.device().is_privateuseone(), "Expected out tensor to be on npu, but got ", out.device(), " instead");
  TORCH_CHECK(type == Type::cast || out.scalar_type() == spec.dtype, "Expected out tensor to have dtype ", spec.dtype,
              ", but got ", out.scalar_type(), " instead");
  TORCH_CHECK(c10::canCast(spec.dtype, out.scalar_type()), "result type ", spec.dtype,
              " can't be cast to the desired output type ", out.scalar_type());
  at::assert_no_internal_overlap(out);
  const bool fits = out.sizes() == spec.sizes;
  bool shared = false;
  for (const auto* input : inputs) {
    TORCH_CHECK(fits || !input->is_same(out), "output with shape ", out.sizes(), " doesn't match the broadcast shape ",
                spec.sizes);
    if (!input->defined() || at::get_overlap_status(out, *input) != at::MemOverlapStatus::Partial) continue;
    if (fits && input->sizes() == out.sizes()) at::assert_no_partial_overlap(out, *input);
    shared = true;
  }
  if (at::native::resize_output(out, spec.sizes)) {
    if (!spec.strides.empty())
      out.as_strided_(spec.sizes, spec.strides);
    else
      out.unsafeGetTensorImpl()->empty_tensor_restride(spec.format);
  }
  const bool dense =
      out.is_contiguous() || (spec.strides.empty() ? out.is_contiguous(spec.format) : out.strides() == spec.strides);
  if (out.scalar_type() != spec.dtype || !dense || shared) stand_in_ = make(spec);
}

Spec iterated(at::ScalarType dtype, std::initializer_list<const Tensor*> operands) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).check_all_same_device(false);
  config.declare_static_dtype_and_device(dtype, at::kMeta).add_owned_output(Tensor());
  for (const auto* t : operands) config.add_const_input(*t);
  const auto iterator = config.build();
  const auto& out = iterator.output(0);
  Spec spec = sized(out.sizes(), dtype);
  spec.strides.append(out.strides().begin(), out.strides().end());
  return spec;
}

c10::DimVector every_dim(const Tensor& t, at::OptionalIntArrayRef dims) {
  if (dims.has_value() && !dims->empty()) return c10::DimVector(*dims);
  c10::DimVector all(t.dim());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Spec reduced(const Tensor& t, at::OptionalIntArrayRef dims, bool keepdim, at::ScalarType dtype) {
  Spec spec{{}, dtype};
  std::vector<bool> gone(t.dim(), !dims.has_value() || dims->empty());
  if (dims.has_value())
    for (const int64_t d : *dims)
      if (at::maybe_wrap_dim(d, t.dim()); t.dim() > 0) gone[at::maybe_wrap_dim(d, t.dim())] = true;
  for (int64_t d = 0; d < t.dim(); d++) {
    if (!gone[d])
      spec.sizes.push_back(t.size(d));
    else if (keepdim)
      spec.sizes.push_back(1);
  }
  return spec;
}

Spec pooled(const Tensor& t, at::IntArrayRef output_size) {
  Spec spec = like(t);
  TORCH_CHECK(t.dim() > static_cast<int64_t>(output_size.size()), "pooling to ", output_size,
              " needs more dimensions than ", t.sizes());
  std::copy(output_size.begin(), output_size.end(), spec.sizes.end() - output_size.size());
  return spec;
}

Spec batched(const Tensor& a, const Tensor& b, int64_t rows, int64_t columns) {
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 2, "expected matrices or batches of matrices, got shapes ", a.sizes(), " and ",
              b.sizes());
  auto sizes = at::infer_size(a.sizes().slice(0, a.dim() - 2), b.sizes().slice(0, b.dim() - 2));
  sizes.insert(sizes.end(), {rows, columns});
  return sized(sizes, a);
}

Spec for_each_matrix(const Tensor& t, at::IntArrayRef tail, at::ScalarType dtype) {
  TORCH_CHECK(t.dim() >= 2, "The input tensor must have at least 2 dimensions, but got ", t.dim());
  Spec spec = sized(t.sizes().slice(0, t.dim() - 2), dtype);
  spec.sizes.append(tail.begin(), tail.end());
  return spec;
}

Spec windowed(const Tensor& t, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
              at::IntArrayRef dilation, bool ceil_mode, at::ScalarType dtype) {
  const int64_t rank = 3;
  TORCH_CHECK(t.dim() == rank + 1 || t.dim() == rank + 2, "Expected ", rank + 1, "D or ", rank + 2, "D input, got ",
              t.sizes());
  const auto at = [](at::IntArrayRef values, int64_t i) { return values[values.size() == 1 ? 0 : i]; };
  Spec spec = like(t, dtype);
  for (int64_t i = 0; i < rank; i++) {
    const int64_t d = t.dim() - rank + i, k = at(kernel, i);
    spec.sizes[d] = at::native::pooling_output_shape<int64_t>(
        t.size(d), k, at(padding, i), stride.empty() ? k : at(stride, i), at(dilation, i), ceil_mode);
    TORCH_CHECK(spec.sizes[d] >= 1, "Given input size ", t.sizes(), ", the output size would be ", spec.sizes[d],
                ": too small");
  }
  return spec;
}

Spec padded(const Tensor& t, at::IntArrayRef padding) {
  const int64_t rank = static_cast<int64_t>(padding.size()) / 2;
  TORCH_CHECK(t.dim() == rank + 1 || t.dim() == rank + 2, "Expected ", rank + 1, "D or ", rank + 2,
              "D (batch mode) tensor with possibly 0 "
              "batch size and other non-zero dimensions for input, but got: ",
              t.sizes());
  Spec spec = sized(t.sizes(), t);
  for (int64_t i = 0; i < rank; i++) {
    const int64_t d = t.dim() - 1 - i;
    TORCH_CHECK(padding[2 * i] < t.size(d) && padding[2 * i + 1] < t.size(d),
                "Argument #4: Padding size should be less than the "
                "corresponding input dimension, but got: padding (",
                padding[2 * i], ", ", padding[2 * i + 1], ") at dimension ", d, " of input ", t.sizes());
    spec.sizes[d] += padding[2 * i] + padding[2 * i + 1];
    TORCH_CHECK(spec.sizes[d] >= 1, "input ", t.sizes(), " is too small for padding ", padding);
  }
  return spec;
}

namespace {

void pair(at::IntArrayRef list, const char* name) {
  TORCH_CHECK(list.size() == 2, "It is expected ", name, " equals to 2, but got size ", list.size());
}

}  // namespace

Spec unfolded(const Tensor& t, at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
              at::IntArrayRef stride) {
  pair(kernel, "kernel_size"), pair(dilation, "dilation"), pair(padding, "padding"), pair(stride, "stride");
  at::native::im2col_shape_check(t, Tensor(), kernel[0], kernel[1], dilation[0], dilation[1], padding[0], padding[1],
                                 stride[0], stride[1]);
  int64_t windows = 1;
  for (int i = 0; i < 2; i++)
    windows *= at::native::sliding_window_count(t.size(t.dim() - 2 + i), padding[i], dilation[i], kernel[i], stride[i]);
  Spec spec = sized(t.sizes().slice(0, t.dim() - 3), t);
  spec.sizes.append({t.size(-3) * kernel[0] * kernel[1], windows});
  return spec;
}

Spec folded(const Tensor& t, at::IntArrayRef output_size, at::IntArrayRef kernel, at::IntArrayRef dilation,
            at::IntArrayRef padding, at::IntArrayRef stride) {
  pair(output_size, "output_size");
  pair(kernel, "kernel_size"), pair(dilation, "dilation"), pair(padding, "padding"), pair(stride, "stride");
  at::native::col2im_shape_check(t, Tensor(), output_size[0], output_size[1], kernel[0], kernel[1], dilation[0],
                                 dilation[1], padding[0], padding[1], stride[0], stride[1]);
  Spec spec = sized(t.sizes().slice(0, t.dim() - 2), t);
  spec.sizes.append({t.size(-2) / (kernel[0] * kernel[1]), output_size[0], output_size[1]});
  return spec;
}

Spec half_spectrum(const Tensor& t, at::IntArrayRef dims, bool onesided) {
  Spec spec = sized(t.sizes(), complex_type(t));
  if (onesided && !dims.empty()) {
    auto& length = spec.sizes[at::maybe_wrap_dim(dims.back(), t.dim())];
    length = length / 2 + 1;
  }
  return spec;
}

Spec real_signal(const Tensor& t, at::IntArrayRef dims, int64_t length) {
  Spec spec = sized(t.sizes(), real_type(t));
  if (!dims.empty()) spec.sizes[at::maybe_wrap_dim(dims.back(), t.dim())] = length;
  return spec;
}

Spec segments(const Tensor& data, const std::optional<Tensor>& lengths, const std::optional<Tensor>& offsets,
              int64_t axis) {
  axis = at::maybe_wrap_dim(axis, data.dim());
  TORCH_CHECK(data.numel() >= 0 && (lengths.has_value() || offsets.has_value()),
              "segment_reduce(): Either lengths or offsets must be defined.");
  const bool by_length = lengths.has_value() && lengths->defined();
  const Tensor& shape = by_length ? *lengths : *offsets;
  Spec spec = sized(data.sizes(), data);
  spec.sizes[axis] = shape.size(shape.dim() - 1) - !by_length;
  return spec;
}

bool fast_lists(at::ArrayRef<at::TensorList> lists, at::ArrayRef<c10::Scalar> numbers) {
  const auto& first = lists[0];
  if (first.empty() || !is_npu(first[0]) || !first[0].is_floating_point()) return false;
  if (!on_softnpu() && first[0].scalar_type() == at::kDouble) return false;  // most of CANN's lists were not seen so
  for (const auto& list : lists)
    if (list.size() != first.size()) return false;
  for (const auto& number : numbers)
    if (number.isBoolean()) return false;  // subtraction refuses them
  return at::native::can_use_fast_route(lists, numbers);
}

Tensor& store(Tensor& self, const Tensor& result) {
  TORCH_CHECK(c10::canCast(result.scalar_type(), self.scalar_type()), "result type ", result.scalar_type(),
              " can't be cast to the desired output type ", self.scalar_type());
  TORCH_CHECK(result.sizes() == self.sizes(), "output with shape ", self.sizes(), " doesn't match the broadcast shape ",
              result.sizes());
  return self.copy_(result);
}

int64_t scatter_mode(std::string_view reduce) {
  if (reduce == "sum" || reduce == "add") return 1;
  if (reduce == "prod" || reduce == "multiply") return 2;
  if (reduce == "amax") return 3;
  if (reduce == "amin") return 4;
  if (reduce == "mean") return 5;
  TORCH_CHECK(false, "reduce argument must be either sum, prod, mean, amax or amin, got ", reduce, ".");
}

int64_t qr_mode(std::string_view mode) { return mode == "complete" ? 1 : mode == "r" ? 2 : 0; }

std::vector<c10::Scalar> scalars(std::optional<c10::ArrayRef<double>> values) {
  return values.has_value() ? std::vector<c10::Scalar>(values->begin(), values->end()) : std::vector<c10::Scalar>();
}

int32_t div_mode(std::optional<std::string_view> rounding_mode) {
  if (!rounding_mode.has_value()) return 0;
  if (*rounding_mode == "trunc") return 1;
  if (*rounding_mode == "floor") return 2;
  TORCH_CHECK(false, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", *rounding_mode,
              "'");
}

}  // namespace npu::ops
