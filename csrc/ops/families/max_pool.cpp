// Max pooling as CANN has it, and torch.max_pool2d, whose caller wants no places.
//
// Note [Max pooling with a mask]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Upstream composes max_pool2d of max_pool2d_with_indices and throws the places away. CANN's operator of planes gives a
// mask for the backward pass instead of places, and that is what a network should use. So max_pool2d stands at the
// autograd key, with a node of its own that keeps the mask. Tracing, transforms of functorch and forward-mode
// differentiation take upstream's composition; so does the gradient of a gradient.
#include "ops/families/max_pool.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/Pool.h>
#include <ATen/ops/max_pool1d_native.h>
#include <ATen/ops/max_pool2d_native.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>

#include "aclnn/op.h"
#include "ops/provider.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

using Ints = std::vector<int64_t>;

// A window of planes as one of solids; `deep` is its entry for the depth.
Ints with_depth(int64_t deep, at::IntArrayRef values) {
  Ints result{deep};
  for (const size_t i : {size_t{0}, size_t{1}}) result.push_back(values[values.size() == 1 ? 0 : i]);
  return result;
}

struct SolidWindow {
  explicit SolidWindow(const Window& w)
      : kernel(with_depth(1, w.kernel)),
        stride(w.stride.empty() ? kernel : with_depth(1, w.stride)),
        padding(with_depth(0, w.padding)),
        dilation(with_depth(1, w.dilation)) {}
  Ints kernel, stride, padding, dilation;
};

// [batch, channels, 1, height, width]
Tensor as_solid(const Tensor& t) {
  const auto solid = t.unsqueeze(-3);
  return solid.dim() == 5 ? solid : solid.unsqueeze(0);
}

// What the operator writes for `out`: itself, or dense memory of its shape.
Tensor dense_solid(const Tensor& out) {
  return out.is_contiguous() ? as_solid(out) : empty(as_solid(out).sizes(), out.scalar_type());
}

struct MaskedPool : torch::autograd::Function<MaskedPool> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& self, Ints kernel, Ints stride,
                        Ints padding, Ints dilation, bool ceil_mode) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    CardGuard guard(self);
    const auto x = self.contiguous();
    const auto pooled = [&](int64_t d) {
      return at::native::pooling_output_shape(x.size(d), kernel[d - 2], padding[d - 2], stride[d - 2], dilation[d - 2],
                                              ceil_mode);
    };
    const int64_t height = pooled(2), width = pooled(3);
    auto out = empty({x.size(0), x.size(1), height, width}, x.scalar_type());
    // A bit for each place of a window and each of its results, these in blocks of 16, and one block more.
    auto mask = empty({x.size(0), x.size(1), kernel[0] * kernel[1], ((height * width + 15) / 16 + 1) * 32}, at::kChar);
    NPU_EXEC(aclnnMaxPool2dWithMask, x, kernel, stride, padding, dilation, ceil_mode, out, mask);
    context->save_for_backward({self, mask});
    for (const auto& [name, values] :
         {std::pair{"kernel", &kernel}, {"stride", &stride}, {"padding", &padding}, {"dilation", &dilation}})
      context->saved_data[name] = *values;
    context->saved_data["ceil_mode"] = ceil_mode;
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto& self = saved[0];
    const auto ints = [&](const char* name) { return context->saved_data[name].toIntVector(); };
    const auto kernel = ints("kernel"), stride = ints("stride"), padding = ints("padding"), dilation = ints("dilation");
    const bool ceil_mode = context->saved_data["ceil_mode"].toBool();
    Tensor grad_input;
    if (at::GradMode::is_enabled()) {
      const auto indices =
          std::get<1>(at::max_pool2d_with_indices(self.detach(), kernel, stride, padding, dilation, ceil_mode));
      grad_input =
          at::max_pool2d_with_indices_backward(grads[0], self, kernel, stride, padding, dilation, ceil_mode, indices);
    } else {
      CardGuard guard(self);
      grad_input = empty(self.sizes(), self.scalar_type());
      NPU_EXEC(aclnnMaxPool2dWithMaskBackward, grads[0].contiguous(), self.contiguous(), saved[1], kernel, stride,
               padding, dilation, ceil_mode, grad_input);
    }
    return {grad_input, {}, {}, {}, {}, {}};
  }
};

Ints both(at::IntArrayRef values) { return values.size() == 1 ? Ints{values[0], values[0]} : values.vec(); }

// What has an error message, or another layout, is upstream's.
bool fits_mask(const Tensor& self, const Window& w) {
  const auto two = [](at::IntArrayRef v) { return v.size() == 1 || v.size() == 2; };
  const auto type = self.scalar_type();
  const auto ones = [](at::IntArrayRef v) { return std::all_of(v.begin(), v.end(), [](int64_t i) { return i == 1; }); };
  if (on_softnpu() || self.dim() != 4 || self.numel() == 0 || !is_direct(self)) return false;
  if (type != at::kFloat && type != at::kHalf && type != at::kBFloat16) return false;
  if (!two(w.kernel) || !two(w.padding) || !two(w.dilation) || (!w.stride.empty() && !two(w.stride))) return false;
  const auto kernel = both(w.kernel), padding = both(w.padding), stride = w.stride.empty() ? kernel : both(w.stride);
  for (const size_t i : {size_t{0}, size_t{1}})
    if (kernel[i] < 1 || stride[i] < 1 || padding[i] < 0 || 2 * padding[i] > kernel[i] ||
        self.size(2 + static_cast<int64_t>(i)) + 2 * padding[i] < kernel[i])
      return false;
  return ones(w.dilation);
}

Tensor pool2d(const Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
              at::IntArrayRef dilation, bool ceil_mode) {
  if (!on_softnpu() && self.dim() == 3)
    return pool2d(self.unsqueeze(0), kernel, stride, padding, dilation, ceil_mode).squeeze(0);
  if (!fits_mask(self, {kernel, stride, padding, dilation, ceil_mode}))
    return at::native::max_pool2d(self, kernel, stride, padding, dilation, ceil_mode);
  return MaskedPool::apply(self, both(kernel), both(stride.empty() ? kernel : stride), both(padding), both(dilation),
                           ceil_mode);
}

// A row of a plane.
Tensor pool1d(const Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
              at::IntArrayRef dilation, bool ceil_mode) {
  const bool fits = !on_softnpu() && (self.dim() == 2 || self.dim() == 3) && kernel.size() == 1 && stride.size() < 2 &&
                    padding.size() == 1 && dilation.size() == 1 && self.numel() > 0;
  if (!fits) return at::native::max_pool1d(self, kernel, stride, padding, dilation, ceil_mode);
  const int64_t step = stride.empty() ? kernel[0] : stride[0];
  return pool2d(self.unsqueeze(-2), {1, kernel[0]}, {1, step}, {0, padding[0]}, {1, dilation[0]}, ceil_mode)
      .squeeze(-2);
}

}  // namespace

Tensor narrow_places(const Tensor& indices) { return on_softnpu() ? indices : indices.to(at::kInt); }

void pool_solids(const Tensor& self, const Window& w, const Tensor& out, const Tensor& indices) {
  const auto places = empty(indices.sizes(), at::kInt);
  NPU_EXEC(aclnnMaxPool3dWithArgmax, self, w.kernel, w.stride, w.padding, w.dilation, w.ceil_mode, out, places);
  indices.copy_(places);
}

void adaptive_pool_solids(const Tensor& self, at::IntArrayRef size, const Tensor& out, const Tensor& indices) {
  const auto places = empty(indices.sizes(), at::kInt);
  NPU_EXEC(aclnnAdaptiveMaxPool3d, self, size, out, places);
  indices.copy_(places);
}

void pool_planes(const Tensor& self, const Window& window, const Tensor& out, const Tensor& indices) {
  const SolidWindow w(window);
  const auto solid = dense_solid(out);
  const auto places = empty(solid.sizes(), at::kInt);
  NPU_EXEC(aclnnMaxPool3dWithArgmax, as_solid(self).contiguous(), w.kernel, w.stride, w.padding, w.dilation,
           window.ceil_mode, solid, places);
  if (!out.is_contiguous()) out.copy_(solid.view(out.sizes()));
  indices.copy_(places.view(indices.sizes()));
}

void pool_planes_backward(const Tensor& grad, const Tensor& self, const Tensor& indices, const Window& window,
                          const Tensor& grad_input) {
  const SolidWindow w(window);
  const auto solid = dense_solid(grad_input);
  NPU_EXEC(aclnnMaxPool3dWithArgmaxBackward, as_solid(grad).contiguous(), as_solid(self).contiguous(),
           as_solid(indices).to(at::kInt).contiguous(), w.kernel, w.stride, w.padding, w.dilation, window.ceil_mode,
           solid);
  if (!grad_input.is_contiguous()) grad_input.copy_(solid.view(grad_input.sizes()));
}

NPU_REGISTER(max_pool) {
  reg_as(c10::DispatchKey::AutogradPrivateUse1, "aten::max_pool1d", "", &pool1d);
  reg_as(c10::DispatchKey::AutogradPrivateUse1, "aten::max_pool2d", "", &pool2d);
}

}  // namespace npu::ops
