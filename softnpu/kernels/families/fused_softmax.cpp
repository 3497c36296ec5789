#include "kernels/families/fused_softmax.h"

#include <ATen/Functions.h>

#include "kernels/engine/require.h"
#include "kernels/engine/rows.h"

namespace softnpu::kernels {

namespace {

constexpr float kMasked = -10000.0F;

// A mask as bytes, row by row of the tensor that it is broadcast to.
class Mask {
 public:
  Mask(const Tensor& mask, const Tensor& x, bool triangle)
      : triangle_(triangle), rows_(x.dim() > 1 ? x.size(-2) : 1), columns_(x.size(-1)) {
    if (triangle) return;
    bytes_ = mask.to(at::kBool).contiguous().expand(x.sizes());
    data_ = static_cast<const uint8_t*>(bytes_.const_data_ptr());
    step_ = bytes_.stride(-1);
  }

  // Of row `row` of all.
  rows::Masked at(int64_t row) const {
    if (triangle_) return {nullptr, row % rows_ + 1};
    const uint8_t* marks = data_ + offset(row);
    if (step_ == 0) return {nullptr, marks[0] ? 0 : columns_};
    return {marks, 0};
  }

 private:
  int64_t offset(int64_t row) const {
    int64_t offset = 0;
    for (int64_t dim = bytes_.dim() - 2; dim >= 0; dim--) {
      offset += row % bytes_.size(dim) * bytes_.stride(dim);
      row /= bytes_.size(dim);
    }
    return offset;
  }

  bool triangle_;
  int64_t rows_, columns_, step_ = 0;
  Tensor bytes_;
  const uint8_t* data_ = nullptr;
};

// f(row, buffer of n numbers) for every row.
template <class F>
void for_rows(int64_t count, int64_t n, const F& f) {
  rows::in_parallel(count, n, [&](int64_t begin, int64_t end) {
    std::vector<float> buffer(n);
    for (int64_t row = begin; row < end; row++) f(row, buffer.data());
  });
}

}  // namespace

void scaled_masked_softmax(Tensor& out, const Tensor& x, const Tensor& mask, double scale, bool triangle) {
  if (x.numel() == 0) return;
  const int64_t n = x.size(-1);
  const Mask masked(mask, x, triangle);
  const auto from = x.contiguous();
  const bool direct = out.is_contiguous() && out.scalar_type() == x.scalar_type();
  auto to = direct ? out : at::empty_like(from);
  rows::with_type(from.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const T* x_data = from.template const_data_ptr<T>();
    T* out_data = to.template mutable_data_ptr<T>();
    for_rows(x.numel() / n, n, [&](int64_t row, float* buffer) {
      rows::loops<T>().softmax(out_data + row * n, x_data + row * n, buffer, static_cast<float>(scale), masked.at(row),
                               kMasked, n);
    });
  });
  if (!direct) out.copy_(to);
}

void scaled_masked_softmax_backward(Tensor& out, const Tensor& grad, const Tensor& y, const Tensor& mask, double scale,
                                    bool triangle) {
  if (y.numel() == 0) return;
  const int64_t n = y.size(-1);
  const Mask masked(mask, y, triangle);
  const auto probs = y.contiguous(), g = grad.to(y.scalar_type()).contiguous();
  const bool direct = out.is_contiguous() && out.scalar_type() == y.scalar_type();
  auto to = direct ? out : at::empty_like(probs);
  rows::with_type(probs.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const T *y_data = probs.template const_data_ptr<T>(), *grad_data = g.template const_data_ptr<T>();
    T* out_data = to.template mutable_data_ptr<T>();
    for_rows(y.numel() / n, n, [&](int64_t row, float* buffer) {
      rows::loops<T>().softmax_backward(out_data + row * n, grad_data + row * n, y_data + row * n, buffer,
                                        static_cast<float>(scale), masked.at(row), n);
    });
  });
  if (!direct) out.copy_(to);
}

void biased_softmax(Tensor& out, const Tensor& x, const Optional& mask, const Tensor& bias, double scale) {
  auto scores = wide(x) * scale + wide(bias);
  if (mask) scores = scores + wide(*mask);
  out.copy_(at::_softmax(scores, -1, false));
}

namespace require {

void broadcasts(const Optional& t, const char* name, const Tensor& x) {
  if (!t) return;
  bool fits = t->dim() <= x.dim();
  for (int64_t dim = -t->dim(); fits && dim < 0; dim++) fits = t->size(dim) == 1 || t->size(dim) == x.size(dim);
  that(fits, (std::string(name) + " broadcasts to the shape of the input").c_str());
}

void softmax_mask(const Tensor& x, const Tensor& mask, bool triangle) {
  that(x.dim() >= 1, "the input has dimensions");
  if (triangle)
    that(x.dim() >= 2 && x.size(-1) == x.size(-2), "the two last dimensions have one length where the mask is fixed");
  else
    broadcasts(mask, "mask", x);
}

}  // namespace require

}  // namespace softnpu::kernels
